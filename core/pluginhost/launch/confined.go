package launch

import (
	"context"
	"log/slog"
	"strings"

	"github.com/mooncake-go/mooncake/core/pluginhost/launch/sandbox"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// confined is the sandbox of one child. Others may read it once the child is started.
type confined struct {
	policy sandbox.Policy
	log    *slog.Logger
	shown  string // what is in force
}

// on reports whether rights are to be taken.
func (c *confined) on() bool {
	return c.policy.Mode == sandbox.ModeAuto || c.policy.Mode == sandbox.ModeRequire
}

// own gives the child a folder of its own. It returns the variables by which the child finds it.
func (c *confined) own(dir string) []string {
	if !c.on() || dir == "" {
		return nil
	}
	c.policy.Write = append(c.policy.Write[:len(c.policy.Write):len(c.policy.Write)], dir)
	return []string{"TMPDIR=" + dir}
}

// prepare makes the sandbox, nil for none.
func (c *confined) prepare() (*sandbox.Box, error) {
	if !c.on() {
		return nil, nil //nolint:nilnil // There is none.
	}
	box, err := sandbox.Prepare(c.policy)
	if err == nil && len(box.Missing) > 0 {
		if err = c.refuse(strings.Join(box.Missing, ", ")); err != nil && box.Ruleset != nil {
			_ = box.Ruleset.Close()
		}
	}
	if err != nil {
		return nil, err
	}
	c.shown = box.String()
	level := slog.LevelInfo
	if len(box.Missing) > 0 {
		level = slog.LevelWarn
	}
	c.log.Log(context.Background(), level, "the process of the plugin runs in a sandbox", "sandbox", c.shown)
	return box, nil
}

// lost says that the sandbox cannot be put in force, since there is no keeper.
func (c *confined) lost(why error) error {
	if !c.on() {
		return nil
	}
	c.shown = "not enforced: anything (" + why.Error() + ")"
	return c.refuse("anything (" + why.Error() + ")")
}

// refuse returns an error if the plugin must not run without what is missing.
func (c *confined) refuse(missing string) error {
	if c.policy.Mode != sandbox.ModeRequire {
		return nil
	}
	return errs.WithHint(errs.New(errs.NotSupported, "", "its sandbox cannot be enforced here: %s", missing),
		"run a kernel that has it, or set plugins.sandbox to auto, which enforces what there is")
}

// String says what is in force.
func (c *confined) String() string { return c.shown }
