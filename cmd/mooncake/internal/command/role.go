package command

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mooncake-go/mooncake/core/config"
)

// roleAnnotation marks the commands whose flags are settings of a role.
const roleAnnotation = "mooncake_role"

// WithRole makes the settings of a role flags of cmd and of the commands below it.
func (e *Env) WithRole(cmd *cobra.Command, role config.Role) *cobra.Command {
	roleFlags(cmd, cmd.PersistentFlags(), role)
	e.AddVersion(cmd)
	return cmd
}

// WithOwnRole makes the settings of a role flags of cmd alone, for a command below which others
// have the settings of other roles.
func WithOwnRole(cmd *cobra.Command, role config.Role) { roleFlags(cmd, cmd.Flags(), role) }

func roleFlags(cmd *cobra.Command, flags *pflag.FlagSet, role config.Role) {
	config.RegisterFlags(flags, role)
	flags.SortFlags = false
	cmd.Annotations = map[string]string{roleAnnotation: string(role)}
	cmd.SetUsageFunc(roleUsage)
}

func roleUsage(c *cobra.Command) error {
	w := c.OutOrStderr()
	fmt.Fprintf(w, "Usage:\n  %s\n\nExamples:\n%s\n", c.UseLine(), c.Example)
	if c.HasAvailableSubCommands() {
		fmt.Fprintln(w, "\nCommands:")
	}
	for _, sub := range c.Commands() {
		fmt.Fprintf(w, "  %-10s %s\n", sub.Name(), sub.Short)
	}
	fmt.Fprintf(w, "\n%s", config.FlagUsages(c.Flags()))
	return nil
}

// Normalize rewrites gflags syntax for the commands that have settings as flags. The words before
// the first flag are verbs.
func Normalize(root *cobra.Command, args []string) []string {
	cmd, i := root, 0
	for i < len(args) && !strings.HasPrefix(args[i], "-") {
		next := Child(cmd, args[i])
		if next == nil {
			break
		}
		cmd = next
		i++
	}
	if RoleOf(cmd) == "" {
		return args
	}
	fs := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
	config.RegisterFlags(fs, RoleOf(cmd))
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if fs.Lookup(f.Name) == nil && (f.Shorthand == "" || fs.ShorthandLookup(f.Shorthand) == nil) {
			fs.AddFlag(f)
		}
	})
	return append(append([]string(nil), args[:i]...), config.NormalizeArgs(args[i:], fs)...)
}

// Child returns the verb below cmd that has this name or alias, or nil.
func Child(cmd *cobra.Command, name string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if c.Name() == name || c.HasAlias(name) {
			return c
		}
	}
	return nil
}

// RoleOf returns the role whose settings are flags of cmd, or the empty role.
func RoleOf(cmd *cobra.Command) config.Role {
	for c := cmd; c != nil; c = c.Parent() {
		if r := c.Annotations[roleAnnotation]; r != "" {
			return config.Role(r)
		}
	}
	return ""
}

// Load reads the configuration of a command that has settings as flags, makes its logger, and
// logs the warnings.
func (e *Env) Load(cmd *cobra.Command) (*config.Loaded, *slog.Logger, error) {
	role := RoleOf(cmd)
	loaded, err := config.Load(config.Options{
		Role: role, Flags: cmd.Flags(), Environ: e.Environ,
		PluginDefaults: e.PluginDefaults(), UpstreamDefaults: e.Upstream(),
	})
	if err != nil {
		return nil, nil, Usage(err)
	}
	log, err := e.Logger(loaded, role)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range loaded.Warnings {
		log.Warn(w.String())
	}
	return loaded, log, nil
}
