//go:build mooncake_no_authoring

package plugins

import (
	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// authoring are the verbs for authors of plugins, in a program that was built without them.
func (e verbs) authoring() []*cobra.Command {
	refuse := func(name string) *cobra.Command {
		return &cobra.Command{
			Use: name, Short: "Not in this build, which is for running a pool: build the program from the sources",
			DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error {
				return errs.WithHint(errs.New(errs.NotSupported, "mooncake plugins "+name, "this program was built without the conformance suites and skeletons"),
					"take the program of `make build`, or of go install github.com/mooncake-go/mooncake/cmd/mooncake@latest")
			},
		}
	}
	return []*cobra.Command{refuse("new"), refuse("conformance")}
}
