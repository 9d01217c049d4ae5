// Package kitscore measures the conformance suites: it seeds bugs into plugins that keep their
// contract, one at a time, and counts which of them a suite finds. A suite runs on each bug twice,
// as the author of a plugin would run it: in process, as `go test` does, and on a program, as
// `mooncake plugins conformance` does.
//
// A bug counts as found if a check fails that names the broken rule. A check that only did not end
// finds nothing, because it names no rule. The plugin without a bug has to pass every check.
package kitscore

import (
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Bug is one fault of a plugin that is otherwise correct.
type Bug struct {
	// Name is the value of BugEnv that turns it on. It is unique in its kind.
	Name string
	// Wrong says in a sentence what the plugin does wrong.
	Wrong string
	// Finds are the names of the checks that test the broken rule. A failure of any other check
	// does not count.
	Finds []string
	// Killed is for a bug that shows only when a process is killed. In process it does not count as missed.
	Killed bool
	// Race is for a bug that only the race detector finds. It does not count as missed.
	Race bool
	// Bounded says how the host keeps the rule where the plugin is a program of its own, so that the bug has no effect
	// there. Empty for a bug that has to be found there.
	Bounded string
}

// Kind is a plugin into which bugs can be seeded.
type Kind struct {
	// ID is that of the program.
	ID plugin.ID
	// Package is the import path of the program.
	Package string
	// Settings are those with which the program runs.
	Settings map[string]any
	// Folder is the setting that gets a folder of its own in each run, empty for none.
	Folder string
	Bugs   []Bug
	// Suite is the suite in process, with what the author of such a plugin provides. An empty bug
	// is the correct plugin.
	Suite func(bug string) conformance.Suite
}

// BugEnv names the variable with the bug of a program. It is no setting, so that the settings are those of the manifest.
const BugEnv = "MOONCAKE_KITSCORE_BUG"
