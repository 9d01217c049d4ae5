package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// version is set by the linker.
var version = "dev"

type versionInfo struct {
	Version   string            `json:"version"`
	Revision  string            `json:"revision,omitempty"`
	Go        string            `json:"go"`
	Platform  string            `json:"platform"`
	Contracts map[string][]uint `json:"contracts"`
}

// String is the one line that --version prints, with the revision where the build knew it.
func (v versionInfo) String() string {
	details := []string{v.Go, v.Platform}
	if v.Revision != "" {
		details = append([]string{"revision " + v.Revision}, details...)
	}
	return fmt.Sprintf("mooncake %s (%s)", v.Version, strings.Join(details, ", "))
}

func thisVersion() versionInfo {
	v := versionInfo{
		Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Contracts: map[string][]uint{
			plugin.KindTransport: transport.API(), plugin.KindAlloc: alloc.API(), plugin.KindEvict: evict.API(),
		},
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Revision = s.Value
			}
		}
	}
	return v
}

// addVersion gives a command the flag --version, which does nothing but print it.
func addVersion(cmd *cobra.Command) {
	if cmd.RunE == nil {
		return
	}
	show := cmd.Flags().Bool("version", false, "print the version and end")
	run := cmd.RunE
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if *show {
			fmt.Fprintln(c.OutOrStdout(), thisVersion())
			return nil
		}
		return run(c, args)
	}
}

func (e *env) versionCmd() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version and the contract versions that plugins have to match",
		Example: "  mooncake version -o json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := thisVersion()
			switch output {
			case "json":
				enc := json.NewEncoder(e.stdout)
				enc.SetIndent("", "  ")
				return enc.Encode(v)
			case "text":
				fmt.Fprintln(e.stdout, v)
				for _, k := range plugin.Kinds() {
					fmt.Fprintf(e.stdout, "  %-9s contract %v\n", k, v.Contracts[k])
				}
				return nil
			default:
				return badOutput(output, "text", "json")
			}
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func badOutput(got string, allowed ...string) error {
	return usagef("output format %q is not one of %v", got, allowed)
}
