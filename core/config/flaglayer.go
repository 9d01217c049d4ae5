package config

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/mooncake-go/mooncake/core/config/internal/upstream"
	"github.com/mooncake-go/mooncake/core/config/internal/value"
)

// flags reads the flags that were given.
func (l *loader) flags() {
	if l.Flags == nil {
		return
	}
	ours := map[string]field{}
	for _, f := range l.fields {
		if name := f.flag(l.Role); name != "" {
			ours[name] = f
		}
	}
	l.poolFlags(ours)
	table := l.Role.upstreamFlags()
	l.Flags.VisitAll(func(f *pflag.Flag) {
		v, ok := f.Value.(*flagValue)
		if !ok || !f.Changed || f.Name == "config" || isFileFlag(f.Name) {
			return
		}
		if f.Name == "set" {
			l.set(v.texts)
			return
		}
		if f.Name == defineFlag {
			l.define(v.texts)
			return
		}
		o := Origin{Layer: LayerFlag, Name: "--" + f.Name}
		n, theirs := upstream.Find(table, f.Name)
		if own, ok := ours[f.Name]; ok && (!theirs || !n.ZeroUnset) {
			l.assign(own.key, v.String(), o, nil)
		} else if theirs {
			o.Upstream = !ok
			l.judge(n, v.String(), o)
		}
	})
	l.commit()
}

// set applies --set key=value.
func (l *loader) set(pairs []string) {
	for _, pair := range pairs {
		key, text, ok := strings.Cut(pair, "=")
		o := Origin{Layer: LayerFlag, Name: "--set"}
		if !ok {
			l.problem(o, "", &pair, "must be key=value", "for example --set log.level=debug")
			continue
		}
		if _, known := l.byKey[key]; !known && !strings.HasPrefix(key, "plugins.") {
			l.problem(o, key, nil, "unknown key", l.didYouMean(key))
			continue
		}
		o.Name = "--set " + key
		l.assign(key, text, o, nil)
	}
}

// defineFlag is the store service's --define key=value.
const defineFlag = "define"

// define applies --define key=value, whose keys are those of the store service's file. The
// last one for a key counts; one that is not known is left out with a warning.
func (l *loader) define(pairs []string) {
	table, last := upstream.ServiceKeys(), map[string]int{}
	for i, pair := range pairs {
		key, _, _ := strings.Cut(pair, "=")
		last[key] = i
	}
	for i, pair := range pairs {
		key, text, ok := strings.Cut(pair, "=")
		o := Origin{Layer: LayerFlag, Name: "--define " + key}
		n, known := upstream.Find(table, key)
		switch {
		case !ok:
			l.problem(o, "", &pair, "must be key=value", "for example --define local_hostname=10.0.0.7")
		case last[key] != i:
		case known:
			l.judge(n, text, o)
		default:
			text := "is not a key of the store service and is ignored"
			if near := value.Nearest(key, upstream.Names(table)); near != "" {
				text += "; did you mean " + near + "?"
			}
			l.warn(o, key, text)
		}
	}
}

func (l *loader) didYouMean(key string) string {
	keys := make([]string, len(l.fields))
	for i, f := range l.fields {
		keys[i] = f.key
	}
	if near := value.Nearest(key, keys); near != "" {
		return "did you mean " + near + "?"
	}
	return "`mooncake config show` lists the keys"
}
