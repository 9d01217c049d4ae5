package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/model"
)

// Group makes cmd a verb that has verbs below it and does nothing itself.
func Group(cmd *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd.Args = KnownVerb
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(verbs...)
	return cmd
}

// KnownVerb rejects a word that is no verb of cmd. The error names the nearest verb, or all verbs
// that begin with the word.
func KnownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return Usagef("unknown command %q%s", args[0], DidYouMean(nearestVerbs(cmd, args[0])...))
}

// DidYouMean returns the end of an error that names the nearest words. It is empty for none.
func DidYouMean(near ...string) string {
	if len(near) == 0 || near[0] == "" {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

func nearestVerbs(cmd *cobra.Command, word string) (begin []string) {
	var names []string
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		names = append(append(names, c.Name()), c.Aliases...)
		if strings.HasPrefix(c.Name(), word) {
			begin = append(begin, c.Name())
		}
	}
	if near := config.Nearest(word, names); near != "" && len(begin) == 0 {
		return []string{near}
	}
	return begin
}

// NoArgs rejects positional arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s takes no arguments, got %q%s", cmd.CommandPath(), args, DidYouMean(nearestVerbs(cmd, args[0])...))
	}
	return nil
}

// Args checks the number of arguments and rejects empty ones. A most of -1 sets no limit; what
// describes the arguments.
func Args(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most || slices.Contains(args, "") {
			return Usagef("%s takes %s, got %d arguments: %q", cmd.CommandPath(), what, len(args), args)
		}
		return nil
	}
}

// Keys is Args for the keys of objects. Every argument must be a valid key.
func Keys(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		for _, key := range args {
			if err := model.ValidateKey(key); err != nil {
				return Usage(err)
			}
		}
		return Args(least, most, what)(cmd, args)
	}
}
