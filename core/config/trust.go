package config

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

var variableRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// reservedVariables begin the names of what a plugin's host and its process tell each
// other.
var reservedVariables = []string{"PLUGIN_", "MOONCAKE_PLUGIN_"}

// checkTrust refuses a trust that nothing backs, and variables that a plugin cannot get.
func (l *loader) checkTrust(p Plugins) {
	if p.Lock != "" && !filepath.IsAbs(p.Lock) {
		l.clash("plugins.lock", p.Lock, "must be an absolute path: what is trusted must not depend on the working directory")
	}
	if p.Lock == "" && (p.Trust == "locked" || p.Trust == "tofu") {
		l.clash("plugins.trust", p.Trust, "needs a lock file: plugins.lock")
	}
	for _, kind := range plugin.Kinds() {
		for name, entry := range p.kind(kind) {
			for _, v := range entry.Env {
				if why := badVariable(v); why != "" {
					l.clash("plugins."+kind+"."+name+".env", v, why)
				}
			}
		}
	}
}

func badVariable(name string) string {
	if !variableRE.MatchString(name) {
		return "must be the name of an environment variable, without its value: letters, digits and _"
	}
	for _, prefix := range reservedVariables {
		if strings.HasPrefix(name, prefix) {
			return "is reserved: variables that begin with " + prefix + " are set by the host itself"
		}
	}
	return ""
}
