// Package seal has the verbs that make and show the keys with which clients seal objects.
package seal

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/sealkeys"
)

// verbs makes the commands of this package.
type verbs struct{ *command.Env }

// New makes the verb seal and the verbs below it.
func New(env *command.Env) *cobra.Command {
	e := verbs{env}
	return command.Group(&cobra.Command{
		Use:   "seal",
		Short: "Make and show the keys with which clients seal objects",
		Long: `Changes a file of keys, which security.seal_keys names as file:PATH. Clients read it again when it
changes, within 10 s. Everyone who has the file reads and forges the objects of its tenants.

With several machines, first give all of them a file with the new key ('rotate --later'), then make it
current ('use'): then no client meets an object whose key it does not have.`,
		Example: `  mooncake seal new /etc/mooncake/seal.json
  mooncake seal rotate /etc/mooncake/seal.json
  mooncake seal show /etc/mooncake/seal.json`,
	}, e.newCmd(), e.rotateCmd(), e.useCmd(), e.dropCmd(), e.showCmd())
}

// tenantFlag adds the flag that names the tenant.
func tenantFlag(cmd *cobra.Command, tenant *string) *cobra.Command {
	cmd.Flags().StringVar(tenant, "tenant", model.DefaultTenant, "tenant whose keys these are")
	return cmd
}

func (e verbs) newCmd() *cobra.Command {
	var tenant string
	return tenantFlag(&cobra.Command{
		Use:     "new FILE",
		Short:   "Make the first key of a tenant, in a new file or in one of other tenants",
		Example: "  mooncake seal new /etc/mooncake/seal.json\n  mooncake seal new /etc/mooncake/seal.json --tenant team-a",
		Args:    command.Args(1, 1, "a file"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := model.ValidateTenant(tenant); err != nil {
				return err
			}
			made, err := sealkeys.New(args[0], tenant, time.Now())
			if err != nil {
				return err
			}
			paths, err := command.Absolute(args)
			if err == nil {
				fmt.Fprintf(e.Stdout, "# key %s of tenant %s\nsecurity: { seal: aead, seal_keys: \"file:%s\" }\n", made.ID, tenant, paths[0])
			}
			return err
		},
	}, &tenant)
}

func (e verbs) rotateCmd() *cobra.Command {
	var tenant string
	var later bool
	cmd := tenantFlag(&cobra.Command{
		Use:   "rotate FILE",
		Short: "Make another key of a tenant",
		Long: `New objects are sealed with the new key, or with --later only after 'mooncake seal use'. Objects that were
sealed before stay readable while their key is in the file.`,
		Example: "  mooncake seal rotate /etc/mooncake/seal.json\n  mooncake seal rotate /etc/mooncake/seal.json --later",
		Args:    command.Args(1, 1, "a file"),
		RunE: func(_ *cobra.Command, args []string) error {
			made, err := sealkeys.Rotate(args[0], tenant, later, time.Now())
			if err == nil {
				fmt.Fprintln(e.Stdout, made.ID)
			}
			return err
		},
	}, &tenant)
	cmd.Flags().BoolVar(&later, "later", false, "do not seal with the new key yet")
	return cmd
}

func (e verbs) useCmd() *cobra.Command {
	var tenant string
	return tenantFlag(&cobra.Command{
		Use:     "use FILE ID",
		Short:   "Seal new objects of a tenant with a key",
		Example: "  mooncake seal use /etc/mooncake/seal.json 2026-11-27-0a1b2c3d",
		Args:    command.Args(2, 2, "a file and the ID of a key"),
		RunE:    func(_ *cobra.Command, args []string) error { return sealkeys.Use(args[0], tenant, args[1]) },
	}, &tenant)
}

func (e verbs) dropCmd() *cobra.Command {
	var tenant string
	return tenantFlag(&cobra.Command{
		Use:     "drop FILE ID",
		Short:   "Remove a key: what it has sealed cannot be read any more",
		Example: "  mooncake seal drop /etc/mooncake/seal.json 2026-11-27-0a1b2c3d",
		Args:    command.Args(2, 2, "a file and the ID of a key"),
		RunE:    func(_ *cobra.Command, args []string) error { return sealkeys.Drop(args[0], tenant, args[1]) },
	}, &tenant)
}

// shown is one key, as show prints it.
type shown struct {
	Tenant  string    `json:"tenant"`
	ID      string    `json:"id"`
	Made    time.Time `json:"made"`
	Current bool      `json:"current"`
}

func (e verbs) showCmd() *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:     "show FILE",
		Short:   "List the keys of a file, without the keys themselves",
		Example: "  mooncake seal show /etc/mooncake/seal.json\n  mooncake seal show /etc/mooncake/seal.json -o json",
		Args:    command.Args(1, 1, "a file"),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := sealkeys.Read(args[0])
			if err != nil {
				return err
			}
			var all []shown
			for _, tenant := range slices.Sorted(maps.Keys(f.Tenants)) {
				for _, k := range f.Tenants[tenant] {
					all = append(all, shown{tenant, k.ID, k.Made, k.Current})
				}
			}
			return output.Print(e.Stdout, format, all, func(w io.Writer) { table(w, all) })
		},
	}
	output.Flag(cmd.Flags(), &format, "", output.Text, output.JSON)
	return cmd
}

func table(w io.Writer, all []shown) {
	fmt.Fprintf(w, "%-16s %-24s %-22s %s\n", "TENANT", "KEY", "MADE", "USE")
	for _, k := range all {
		use := "reads"
		if k.Current {
			use = "reads and seals"
		}
		fmt.Fprintf(w, "%-16s %-24s %-22s %s\n", k.Tenant, k.ID, k.Made.Format(time.RFC3339), use)
	}
}
