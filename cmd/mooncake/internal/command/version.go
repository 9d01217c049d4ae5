package command

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/sdk/wire/kinds"
)

// Version describes this program, as `mooncake version` prints it.
type Version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Protocol is that of the calls to the master, Layout that of the ledgers of stores.
	Protocol  string            `json:"protocol"`
	Layout    uint32            `json:"ledger_layout"`
	Contracts map[string][]uint `json:"contracts"`
}

// String returns the line that --version prints, with the revision if the build recorded it.
func (v Version) String() string {
	details := []string{v.Go, v.Platform}
	if v.Revision != "" {
		details = append([]string{"revision " + v.Revision}, details...)
	}
	return fmt.Sprintf("mooncake %s (%s)", v.Version, strings.Join(details, ", "))
}

// ThisVersion describes this program.
func (e *Env) ThisVersion() Version {
	v := Version{
		Version: e.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Protocol: fmt.Sprintf("%d.%d", rpc.ProtocolMajor, rpc.ProtocolMinor), Layout: ledger.Layout,
		Contracts: map[string][]uint{},
	}
	for _, k := range kinds.All() {
		v.Contracts[k.Name] = k.API
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

// AddVersion gives a command the flag --version, which prints the version and does nothing else.
func (e *Env) AddVersion(cmd *cobra.Command) {
	if cmd.RunE == nil {
		return
	}
	show := cmd.Flags().Bool("version", false, "print the version and end")
	run := cmd.RunE
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if *show {
			fmt.Fprintln(c.OutOrStdout(), e.ThisVersion())
			return nil
		}
		return run(c, args)
	}
}
