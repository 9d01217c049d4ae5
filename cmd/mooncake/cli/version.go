package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func (e *env) versionCmd() *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and those that other processes and plugins have to match",
		Example: "  mooncake version -o json",
		Args:    command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := e.ThisVersion()
			return output.Print(e.Stdout, format, v, func(w io.Writer) {
				fmt.Fprintln(w, v)
				fmt.Fprintf(w, "  master    protocol %s\n  ledger    layout %d\n", v.Protocol, v.Layout)
				for _, k := range plugin.Kinds() {
					fmt.Fprintf(w, "  %-9s contract %v\n", k, v.Contracts[k])
				}
			})
		},
	}
	output.Flag(cmd.Flags(), &format, "", output.Text, output.JSON)
	return cmd
}
