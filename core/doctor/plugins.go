package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch/sandbox"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
)

// pluginSecurity says which programs may run as plugins, and what is taken from their processes.
func (e *exam) pluginSecurity(context.Context) Result {
	r := Result{Status: OK}
	runs := e.trusted(&r)
	r.Found = fmt.Sprintf("%s; %s", runs, e.sandboxed(&r))
	return r
}

// trusted judges the lock file, and says which programs run.
func (e *exam) trusted(r *Result) string {
	rules := pluginhost.RulesOf(e.cfg)
	switch rules.Resolve() {
	case trust.ModeOff:
		if rules.Secured {
			r.Status, r.Why, r.Do = Warn, "whoever can write a plugin folder runs programs in a protected pool", "lock the plugins: mooncake plugins lock, then set plugins.lock, and plugins.trust to auto"
		}
		return "every plugin program runs (plugins.trust is off)"
	case trust.ModeTOFU:
		return "plugin programs run from their first use on (plugins.trust is tofu)"
	}
	if rules.Lock == "" {
		return "no plugin program runs, only linked-in plugins: plugins.lock names no file"
	}
	lock, by, err := trust.ReadSigned(rules.Lock, rules.Keys)
	if err == nil {
		err = trust.ReadJudge(rules).Unusable() // It also knows older sets.
	}
	switch {
	case err != nil:
		r.Status, r.Why, r.Do = Fail, "no plugin program runs", "correct the lock file, or make it: mooncake plugins lock"
		r.Details = append(r.Details, err.Error())
		return "the lock file cannot be used"
	case by.Key == "":
		return count(len(lock.IDs()), "locked plugin") + ", without a signature"
	}
	return count(len(lock.IDs()), "locked plugin") + ", signed by " + by.Key
}

// sandboxed says what is taken from processes of plugins.
func (e *exam) sandboxed(r *Result) string {
	mode := pluginhost.SandboxOf(e.cfg)
	if mode == sandbox.ModeOff {
		return "their processes have the rights of this user (plugins.sandbox)"
	}
	k := e.Sandbox()
	missing := k.Missing()
	if len(missing) == 0 {
		return "their processes run in a sandbox: " + k.String()
	}
	r.Details = append(r.Details, missing...)
	if mode == sandbox.ModeRequire {
		r.Status, r.Why, r.Do = Fail, "plugins.sandbox is require, so no plugin program runs", "run a newer kernel, or set plugins.sandbox to auto"
	} else if r.Status == OK {
		r.Status, r.Why, r.Do = Warn, "a hostile plugin can do more than it needs", "run a newer kernel: Linux 6.12 or newer has everything"
	}
	return "their processes run in an incomplete sandbox: " + strings.TrimSpace(k.String())
}
