package config

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/config/internal/upstream"
	"github.com/mooncake-go/mooncake/core/config/internal/value"
)

// StartLine is the line with every effective setting of a master that operators search
// for: "Master service started on port N, max_threads=T" and then name=value. The names
// are those of upstream's flags, a duration is a bare number in the
// unit of its flag, and a capability that does not exist shows the value that is off. The
// settings that only exist here follow under their own names, and those of the section security. threads is how many threads
// run at once.
func StartLine(c Config, threads int) string {
	var b strings.Builder
	b.WriteString("Master service started on port " + strconv.Itoa(c.Master.RPCPort) + ", max_threads=" + strconv.Itoa(threads))
	add := func(name, text string) { b.WriteString(", " + name + "=" + text) }
	shown := map[string]bool{}
	for _, n := range upstream.MasterFlags() {
		switch {
		case n.Deprecated || shown[n.Key]:
		case n.Key != "":
			shown[n.Key] = true
			add(n.Name, Redact(n.Key, bare(valueOf(c, n.Key), n.Unit)))
		case n.Refuse || n.RefuseOnly != "":
			add(n.Name, n.Default)
		}
	}
	for _, f := range schema() {
		switch {
		case f.section == "master" && !shown[f.key]:
			add(f.name, Redact(f.key, format(valueOf(c, f.key))))
		case f.section == "security":
			add(f.section+"_"+f.name, format(valueOf(c, f.key)))
		}
	}
	return b.String()
}

// valueOf reads a setting out of c by its key.
func valueOf(c Config, key string) any {
	v := reflect.ValueOf(c)
	for step := range strings.SplitSeq(key, ".") {
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("koanf") == step {
				v = v.Field(i)
				break
			}
		}
	}
	return v.Interface()
}

// bare formats a value as a flag of unit takes it without a unit.
func bare(v any, unit value.Unit) string {
	d, ok := v.(time.Duration)
	if !ok || unit == value.None || d%time.Duration(unit) != 0 {
		return format(v)
	}
	return strconv.FormatInt(int64(d/time.Duration(unit)), 10)
}
