package config

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/config/internal/value"
)

// field is the schema of one setting, read from the tags of Config.
type field struct {
	key, section, name string
	kind               string // string, bool, int, port, number, duration, size, list, plugin, address, cluster, tenant, socket, keep, limit
	def                string
	low, high          string // bounds as text, empty for none
	enum, later        []string
	fallback           string
	unit               value.Unit
	soon, doc          string
	refuse             bool // an error, not a warning, while soon is set
}

// schema lists the settings in the order of the struct; the list must not be changed. It omits the
// entries of plugins, see pluginFields.
var schema = sync.OnceValue(func() []field { return slices.Clip(fieldsOf(reflect.TypeFor[Config](), "")) })

// pluginFields lists the settings of one entry of plugins but its own, config.
func pluginFields(prefix string) []field { return fieldsOf(reflect.TypeFor[Plugin](), prefix) }

func fieldsOf(t reflect.Type, prefix string) []field {
	var out []field
	for i := range t.NumField() {
		sf := t.Field(i)
		key := joinKey(prefix, sf.Tag.Get("koanf"))
		switch {
		case sf.Type.Kind() == reflect.Struct:
			out = append(out, fieldsOf(sf.Type, key)...)
		case sf.Type.Kind() == reflect.Map: // the entries of plugins, and their own settings
		default:
			out = append(out, newField(sf, key))
		}
	}
	return out
}

func newField(sf reflect.StructField, key string) field {
	f := field{
		key: key, name: sf.Tag.Get("koanf"), kind: kindOf(sf), def: sf.Tag.Get("default"),
		enum: words(sf.Tag.Get("enum")), later: words(sf.Tag.Get("later")), fallback: sf.Tag.Get("fallback"),
		soon: sf.Tag.Get("soon"), doc: sf.Tag.Get("doc"),
		refuse: sf.Tag.Get("refuse") == "true",
	}
	f.section, _, _ = strings.Cut(key, ".")
	f.low, f.high, _ = strings.Cut(sf.Tag.Get("range"), "..")
	switch sf.Tag.Get("unit") {
	case "ms":
		f.unit = value.Millisecond
	case "s":
		f.unit = value.Second
	}
	return f
}

func kindOf(sf reflect.StructField) string {
	if t := sf.Tag.Get("type"); t != "" {
		return t
	}
	switch sf.Type {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[Size]():
		return "size"
	case reflect.TypeFor[[]string]():
		return "list"
	case reflect.TypeFor[float64]():
		return "number"
	default:
		return sf.Type.Kind().String()
	}
}

func words(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "|")
}

func joinKey(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

// env is the name of the environment variable.
func (f field) env() string { return envName(f.key) }

func envName(key string) string {
	return "MOONCAKE_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// flag is the name of the flag in a role, empty where the role has none.
func (f field) flag(r Role) string {
	switch {
	case r == RoleService && f.key == "store.rest_port":
		return "port"
	case r == RoleService && f.key == "store.port":
		return ""
	case f.section == r.section():
		return f.name
	case f.section == "log", f.section == "debug", f.section == "net", f.section == "memory", f.section == "security":
		return f.section + "_" + f.name
	case f.key == "admin.socket":
		return "admin_socket"
	case f.key == "plugins.dirs":
		return "plugin_dir"
	case f.key == "plugins.lock":
		return "plugin_lock"
	case f.key == "plugins.trust":
		return "plugin_trust"
	case f.key == "plugins.trusted_keys":
		return "plugin_trusted_keys"
	case f.key == "plugins.sandbox":
		return "plugin_sandbox"
	default:
		return ""
	}
}
