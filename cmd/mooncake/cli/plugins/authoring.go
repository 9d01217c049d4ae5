//go:build !mooncake_no_authoring

package plugins

import "github.com/spf13/cobra"

// authoring are the verbs for authors of plugins. They bring the conformance suites along.
func (e verbs) authoring() []*cobra.Command { return []*cobra.Command{e.newCmd(), e.conformanceCmd()} }
