package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/doctor"
)

func (e *env) doctorCmd() *cobra.Command {
	cmd := e.doctorOf(&cobra.Command{
		Use:   "doctor",
		Short: "Check this machine for what keeps a role from working well",
		Long: `Looks at huge pages, memory and its limits, NUMA, RDMA devices, ports, clock, plugin folders
and whether master and metadata service answer: what was found, why it matters, what to do.
Changes nothing. Give the role, its file and its flags to check what it will run with.

Exit codes: 0 all is well, or only warnings; 1 a check failed; 2 asked wrongly.`,
		Example: `  mooncake doctor
  mooncake doctor store --config pool.yaml
  mooncake doctor store --global_segment_size 64GB --protocol rdma --use_hugepage
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

// doctorOf makes a command that checks the machine for a role, with the role's flags. The
// flags are its own and not those of the commands below it, which have another role's.
func (e *env) doctorOf(cmd *cobra.Command, role config.Role) *cobra.Command {
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
		report := doctor.Run(cmd.Context(), doctor.ThisMachine(askMaster), doctor.Request{Config: loaded.Config, Role: role, Timeout: timeout})
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
	cmd.Flags().DurationVar(&timeout, "timeout", doctor.DefaultTimeout, "bound on each check")
	return cmd
}

// askMaster asks a master whether it serves.
func askMaster(ctx context.Context, address string) (string, error) {
	c, err := rpc.Dial(address, rpc.Options{})
	if err != nil {
		return "", err
	}
	defer c.Close()
	return c.Ready(ctx)
}
