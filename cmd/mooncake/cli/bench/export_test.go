package bench

import "github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"

// PolicyNames are the values of --policy.
func PolicyNames(e *command.Env) []string { return verbs{e}.policyNames() }
