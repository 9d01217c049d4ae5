package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/core/config/internal/upstream"
	"github.com/mooncake-go/mooncake/core/config/internal/value"
)

// environment reads upstream's variables, then ours over them. An
// empty variable counts as unset.
func (l *loader) environment() {
	table, ours := upstream.Environment(), l.ourVariables()
	names := slices.Sorted(maps.Keys(l.environ))
	links := kubernetesLinks(l.environ)

	var known []upstream.Name
	for _, name := range names {
		n, ok := upstream.Find(table, name)
		if _, native := ours[name]; ok && !native && !links[name] {
			n.Name = name
			known = append(known, n)
		} else if !ok && !native && !links[name] {
			l.unknownVariable(name, table, ours)
		}
	}
	// The table's order says which of two names for one key wins.
	slices.SortStableFunc(known, func(a, b upstream.Name) int { return rank(table, a) - rank(table, b) })
	for _, n := range known {
		if n.Readers&l.Role.readers() != 0 && n.Name != "MOONCAKE_CONFIG_PATH" {
			l.judge(n, l.environ[n.Name], Origin{Layer: LayerEnv, Name: n.Name, Upstream: true})
		}
	}
	for _, name := range names {
		if key := ours[name]; key != "" && !links[name] {
			l.assign(key, l.environ[name], Origin{Layer: LayerEnv, Name: name}, nil)
		}
	}
	l.commit()
}

func rank(table []upstream.Name, n upstream.Name) int {
	return slices.IndexFunc(table, func(t upstream.Name) bool { return t.Name == n.Name })
}

// ourVariables maps the names of our variables to keys. MOONCAKE_CONFIG has none, and
// neither have MOONCAKE_LIBIBVERBS, which the RDMA transport reads, and MOONCAKE_CRC32C_KERNEL, which sdk/x/crc32c reads.
func (l *loader) ourVariables() map[string]string {
	out := map[string]string{"MOONCAKE_CONFIG": "", "MOONCAKE_LIBIBVERBS": "", "MOONCAKE_CRC32C_KERNEL": ""}
	for _, f := range l.fields {
		out[f.env()] = f.key
	}
	return out
}

func (l *loader) unknownVariable(name string, table []upstream.Name, ours map[string]string) {
	if !strings.HasPrefix(name, "MOONCAKE_") && (!strings.HasPrefix(name, "MC_") || otherMC(name)) {
		return
	}
	own := slices.Sorted(maps.Keys(ours))
	near := value.Nearest(name, own)
	if near == "" {
		near = value.Nearest(name, upstream.Names(table))
	}
	text := "is not a known variable and has no effect"
	switch {
	case near != "":
		text += "; did you mean " + near + "?"
	case strings.HasPrefix(name, "MOONCAKE_PLUGINS_"):
		text += "; the settings of plugins are given in the file, or with --set"
	}
	l.warn(Origin{Layer: LayerEnv, Name: name}, name, text)
}

// otherMC reports variables of Midnight Commander and of the MinIO client, which share
// the prefix MC_.
func otherMC(name string) bool {
	switch name {
	case "MC_SID", "MC_TMPDIR", "MC_CONTROL_PID", "MC_CONTROL_FILE", "MC_XDG_OPEN", "MC_SKIN", "MC_DATADIR", "MC_HOME", "MC_PROFILE_ROOT", "MC_KEYMAP",
		"MC_CONFIG_DIR", "MC_QUIET", "MC_NO_COLOR", "MC_JSON", "MC_DEBUG", "MC_INSECURE":
		return true
	}
	return strings.HasPrefix(name, "MC_HOST_")
}

// kubernetesLinks finds the variables that Kubernetes makes for the services of a
// namespace. A service named mooncake-master-metrics would otherwise set
// MOONCAKE_MASTER_METRICS_PORT to a URL.
func kubernetesLinks(environ map[string]string) map[string]bool {
	links := map[string]bool{}
	for name := range environ {
		prefix, ok := strings.CutSuffix(name, "_SERVICE_HOST")
		if !ok || environ[prefix+"_SERVICE_PORT"] == "" {
			continue
		}
		for other, text := range environ {
			rest, ok := strings.CutPrefix(other, prefix+"_")
			if !ok {
				continue
			}
			if rest == "SERVICE_HOST" || strings.HasPrefix(rest, "SERVICE_PORT") || isLink(rest, text) {
				links[other] = true
			}
		}
	}
	return links
}

// isLink recognises PORT and PORT_<number>_<protocol>..., the older form of the same.
func isLink(rest, text string) bool {
	if rest == "PORT" {
		return strings.Contains(text, "://")
	}
	number, ok := strings.CutPrefix(rest, "PORT_")
	return ok && number != "" && number[0] >= '0' && number[0] <= '9'
}
