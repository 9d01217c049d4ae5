package conformance

import "github.com/mooncake-go/mooncake/sdk/plugin"

// Case is one check of a suite.
type Case struct {
	// Name is unique in its suite.
	Name string
	// Rule says in a sentence what the contract demands and the check looks at.
	Rule string
	// Skip says why the check is left out; empty for one that runs.
	Skip string
	// Vital says that nothing can be said of the plugin where the check fails: Run then
	// skips what follows, and Test leaves it out.
	Vital bool
	Run   func(T)
}

// Suite is what a plugin is held to. Its cases do not depend on one another, except on
// those that are vital.
type Suite struct {
	// Name is the kind of plugin that the suite is for.
	Name string
	// Plugin is the manifest of what is tested.
	Plugin plugin.Manifest
	Cases  []Case
}
