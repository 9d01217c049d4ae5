// Package machine has the verbs that look at this machine: doctor, topology and hicache-sizing.
package machine

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/doctor"
)

// verbs makes the commands of this package.
type verbs struct{ *command.Env }

// Doctor makes the verb doctor.
func Doctor(env *command.Env) *cobra.Command {
	e := verbs{env}
	cmd := e.doctorOf(&cobra.Command{
		Use:   "doctor",
		Short: "Check whether this machine is fit for a role",
		Long: `Checks huge pages, checksums, memory and its limits, NUMA, RDMA devices, the folders of storage tiers, ports,
clock and plugin folders, and whether master and metadata service answer. For each check it prints
the finding, why it matters, and how to correct it. It changes nothing. Give the role, its file and its flags to
check the configuration with which it will run.

Exit codes: 0 all checks passed, perhaps with warnings; 1 a check failed; 2 wrong arguments or
settings.`,
		Example: `  mooncake doctor
  mooncake doctor store --config pool.yaml
  mooncake doctor store --global_segment_size 64GB --protocol rdma --use_hugepage
  mooncake doctor store --enable_offload --ssd_offload_path /mnt/nvme0
  mooncake doctor master --rpc_port 50051 -o json`,
	}, config.RoleAll)
	for _, role := range []config.Role{config.RoleMaster, config.RoleMetadata, config.RoleStore, config.RoleClient} {
		cmd.AddCommand(e.doctorOf(&cobra.Command{
			Use:     string(role),
			Short:   "Check this machine for the role " + string(role),
			Example: "  mooncake doctor " + string(role) + " --config pool.yaml",
		}, role))
	}
	return cmd
}

// doctorOf makes a command that checks the machine for a role and has the role's flags. The
// commands below it do not inherit these flags, since they are for other roles.
func (e verbs) doctorOf(cmd *cobra.Command, role config.Role) *cobra.Command {
	var format output.Format
	var timeout time.Duration
	cmd.Args = command.NoArgs
	if role == config.RoleAll {
		cmd.Args = command.KnownVerb
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if timeout <= 0 || timeout > time.Minute {
			return command.Usagef("--timeout %v is not above 0 and at most 1m", timeout)
		}
		loaded, _, err := e.Load(cmd)
		if err != nil {
			return err
		}
		report := doctor.Run(cmd.Context(), doctor.ThisMachine(loaded.Config.Security, askMaster(loaded.Config.Security)), doctor.Request{Config: loaded.Config, Role: role, Timeout: timeout})
		write := report.WriteText
		if format == output.JSON {
			write = report.WriteJSON
		}
		if err := write(e.Stdout); err != nil {
			return err
		}
		if report.Worst() == doctor.Fail {
			return &command.Quiet{Code: command.ExitFailure}
		}
		return nil
	}
	command.WithOwnRole(cmd, role)
	output.Flag(cmd.Flags(), &format, "", output.Text, output.JSON)
	cmd.Flags().DurationVar(&timeout, "timeout", doctor.DefaultTimeout, "limit for each check")
	return cmd
}

// askMaster returns a function that asks whether a master serves.
func askMaster(s config.Security) func(ctx context.Context, address string) (string, error) {
	return func(ctx context.Context, address string) (string, error) {
		c, err := client.Dial(address, client.Options{Security: s})
		if err != nil {
			return "", err
		}
		defer c.Close()
		return c.Ready(ctx)
	}
}
