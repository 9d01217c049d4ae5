package trust

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// ParseLock parses a lock file strictly. It fails with InvalidParams for an unknown key, a
// duplicate key, or an impossible value. The error has the line and name, which is the name of
// the file.
func ParseLock(name string, text []byte) (Lock, error) {
	p := lockParser{name: name}
	l, err := p.file(text)
	if err != nil {
		return Lock{}, err
	}
	return l, nil
}

type lockParser struct{ name string }

func (p lockParser) fail(line int, format string, args ...any) error {
	place := p.name
	if line > 0 {
		place += ":" + strconv.Itoa(line)
	}
	return errs.WithHint(errs.New(errs.InvalidParams, place, format, args...), "correct it, or move it away and lock the plugins that you trust again with: mooncake plugins lock")
}

// yamlLine finds the line in an error of the YAML library.
var yamlLine = regexp.MustCompile(`^yaml: (?:.*?\n *)?line (\d+): `)

func (p lockParser) file(text []byte) (Lock, error) {
	if len(text) > maxLockBytes {
		return Lock{}, p.fail(0, "a lock file is at most %d KiB long", maxLockBytes>>10)
	}
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return Lock{}, p.fail(0, "the file is empty")
		}
		line, why := 0, err.Error()
		if m := yamlLine.FindStringSubmatch(why); m != nil {
			line, _ = strconv.Atoi(m[1])
			why = why[len(m[0]):]
		}
		return Lock{}, p.fail(line, "is not YAML: %s", why)
	}
	var second yaml.Node
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return Lock{}, p.fail(second.Line, "there is something after the end of the document")
	}
	if len(doc.Content) != 1 {
		return Lock{}, p.fail(doc.Line, "the file is empty")
	}
	top, err := p.mapping(doc.Content[0], "the file", "version", "plugins")
	if err != nil {
		return Lock{}, err
	}
	version, ok := top["version"]
	if !ok {
		return Lock{}, p.fail(doc.Content[0].Line, "the key version is missing")
	}
	if text, err := p.scalar(version, "version"); err != nil || text != "1" {
		return Lock{}, errors.Join(err, p.fail(version.Line, "version %q of the format is not 1, the only one that this program knows", text))
	}
	list, ok := top["plugins"]
	if !ok {
		return Lock{}, p.fail(doc.Content[0].Line, "the key plugins is missing")
	}
	return p.plugins(list)
}

func (p lockParser) plugins(n *yaml.Node) (Lock, error) {
	entries, err := p.mapping(n, "plugins")
	if err != nil {
		return Lock{}, err
	}
	if len(entries) > maxLocked {
		return Lock{}, p.fail(n.Line, "a lock file holds at most %d plugins", maxLocked)
	}
	l := Lock{}
	for name, node := range entries {
		id, err := plugin.ParseID(name)
		if err != nil {
			return Lock{}, p.fail(node.Line, "%w", err)
		}
		platforms, err := p.mapping(node, name)
		if err != nil {
			return Lock{}, err
		}
		if len(platforms) == 0 {
			return Lock{}, p.fail(node.Line, "%s has no platform", name)
		}
		if _, script := platforms[AnyPlatform]; script && len(platforms) > 1 {
			return Lock{}, p.fail(node.Line, "%s is locked for any platform and for single ones", name)
		}
		for platform, at := range platforms {
			e, err := p.locked(at, name+" on "+platform)
			if err == nil {
				err = checkLocked(id, platform, e)
			}
			if err == nil {
				err = l.Set(id, platform, e)
			}
			if errs.CodeOf(err) != errs.InvalidParams && err != nil {
				err = p.fail(at.Line, "%w", err)
			}
			if err != nil {
				return Lock{}, err
			}
		}
	}
	return l, nil
}

func (p lockParser) locked(n *yaml.Node, what string) (Locked, error) {
	fields, err := p.mapping(n, what, "version", "sha256")
	if err != nil {
		return Locked{}, err
	}
	var e Locked
	for key, dst := range map[string]*string{"version": &e.Version, "sha256": &e.SHA256} {
		node, ok := fields[key]
		if !ok {
			return Locked{}, p.fail(n.Line, "%s has no %s", what, key)
		}
		if *dst, err = p.scalar(node, key); err != nil {
			return Locked{}, err
		}
	}
	return e, nil
}

// mapping returns the values by key. keys are the allowed keys; without any, all are allowed.
func (p lockParser) mapping(n *yaml.Node, what string, keys ...string) (map[string]*yaml.Node, error) {
	if n.Kind != yaml.MappingNode || n.Anchor != "" {
		return nil, p.fail(n.Line, "%s must be a mapping of keys to values", what)
	}
	out := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, err := p.scalar(n.Content[i], "a key of "+what)
		if err != nil {
			return nil, err
		}
		known := len(keys) == 0
		for _, k := range keys {
			known = known || k == key
		}
		switch {
		case !known:
			return nil, p.fail(n.Content[i].Line, "unknown key %q in %s", key, what)
		case out[key] != nil:
			return nil, p.fail(n.Content[i].Line, "the key %q is there twice in %s", key, what)
		}
		out[key] = n.Content[i+1]
	}
	return out, nil
}

func (p lockParser) scalar(n *yaml.Node, what string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Anchor != "" {
		return "", p.fail(n.Line, "%s must be a single value", what)
	}
	return n.Value, nil
}
