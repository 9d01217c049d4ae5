package config

import (
	"strings"
	"testing"
)

// Whatever a file holds, it either loads, and then what is printed loads again, or is
// refused with problems.
func FuzzFile(f *testing.F) {
	for _, s := range []string{
		"master: {lease_ttl: 5s}\n", "default_kv_lease_ttl: 5s\nclient_live_ttl_sec: 60\n", `{"store": {"transports": ["tcp"]}}`,
		"plugins: {evict: {lru: {mode: auto, config: {a: [1, {b: ~}], c.d: {}}}}}\n", "a: &x\n  b: *x\n", "log.level: debug\n", "enable_ha: true\n", "master:\n", "? 1\n: 2\n",
		"plugins.evict.lru.config.x: 1\n", "plugins: {evict.lru: {config.x.y: 1}}\n", "store..slice_size: 1\n", "\"\": 1\n", "plugins: {evict: {lru: {config: {}}}}",
	} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, json bool) {
		name := "f.yaml"
		if json {
			name = "f.json"
		}
		path := write(t, name, string(data))
		for _, role := range []Role{RoleMaster, RoleStore, RoleAll} {
			l, err := Check(role, path, nil)
			if err != nil {
				if !IsUsage(err) {
					t.Fatalf("%T: %v", err, err)
				}
				continue
			}
			out, err := l.Dump()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Check(role, write(t, "dump.yaml", string(out)), nil); err != nil {
				t.Fatalf("%s\n%v", out, err)
			}
			for _, e := range l.Entries() {
				if _, ok := l.Origin(e.Key); !ok {
					t.Fatalf("no origin for %s", e.Key)
				}
			}
		}
	})
}

// Whatever a flag is given, it is either refused with a problem that names the flag, or
// what is then in effect can be said and given back.
func FuzzFlagValue(f *testing.F) {
	flags := RoleMaster.upstreamFlags()
	for i, s := range []string{"0", "1", "-1", "true", "10s", "1.5", "::", "random", "", "18446744073709551616", "4 GB", "a,b", "1e308", "\x00", "0x10", " 7 "} {
		f.Add(uint16(i), s)
		f.Add(uint16(i*7), s)
	}
	f.Fuzz(func(t *testing.T, i uint16, text string) {
		n := flags[int(i)%len(flags)]
		if isFileFlag(n.Name) {
			return
		}
		l, err := load(t, RoleMaster, []string{"--" + n.Name + "=" + text}, nil, "")
		if err != nil {
			if !IsUsage(err) || !strings.Contains(err.Error(), n.Name) && !strings.Contains(err.Error(), n.Key) {
				t.Fatalf("--%s=%q: %v", n.Name, text, err)
			}
			return
		}
		out, err := l.Dump()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Check(RoleMaster, write(t, "dump.yaml", string(out)), nil)
		if err != nil {
			t.Fatalf("--%s=%q: %v\n%s", n.Name, text, err, out)
		}
		if a, b := StartLine(l.Config, 1), StartLine(back.Config, 1); a != b {
			t.Fatalf("--%s=%q: %s\n%s", n.Name, text, a, b)
		}
	})
}
