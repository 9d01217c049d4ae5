package config

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
)

// layer is what one source gives: a tree of values and the origin of each leaf, whose key
// is its path joined with dots.
type layer struct {
	tree    map[string]any
	origins map[string]Origin
	weak    []weak
}

// weak is a value that counts only where the layer has no other.
type weak struct {
	key    string
	value  any
	origin Origin
}

func newLayer() *layer { return &layer{tree: map[string]any{}, origins: map[string]Origin{}} }

func (y *layer) set(key string, v any, o Origin) {
	y.setPath(strings.Split(key, "."), v, o)
}

func (y *layer) setPath(path []string, v any, o Origin) {
	tree := y.tree
	for _, step := range path[:len(path)-1] {
		next, ok := tree[step].(map[string]any)
		if !ok {
			next = map[string]any{}
			tree[step] = next
		}
		tree = next
	}
	tree[path[len(path)-1]] = v
	y.origins[strings.Join(path, ".")] = o
}

// setTree sets the leaves of a free-form tree; an empty map is a leaf.
func (y *layer) setTree(path []string, v any, origin func(path []string) Origin) {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		y.setPath(path, v, origin(path))
		return
	}
	for key, child := range m {
		y.setTree(append(slices.Clone(path), key), child, origin)
	}
}

func (y *layer) get(key string) any {
	var v any = y.tree
	for step := range strings.SplitSeq(key, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[step]
	}
	return v
}

func (y *layer) fallback(key string, v any, o Origin) { y.weak = append(y.weak, weak{key, v, o}) }

// settle applies the weak values.
func (y *layer) settle() {
	for _, w := range y.weak {
		if _, ok := y.origins[w.key]; !ok {
			y.set(w.key, w.value, w.origin)
		}
	}
	y.weak = nil
}

// layers is the stack, merged as it grows.
type layers struct {
	k       *koanf.Koanf
	origins map[string]Origin
}

func newLayers() *layers { return &layers{k: koanf.New("."), origins: map[string]Origin{}} }

// push puts y over what is there.
func (s *layers) push(y *layer) {
	if len(y.origins) == 0 {
		return // Merging looks at every key that there is.
	}
	// A confmap without a delimiter takes keys as they are and cannot fail.
	_ = s.k.Load(confmap.Provider(y.tree, ""), nil)
	for key, o := range y.origins {
		s.origins[key] = o
	}
}

func (s *layers) has(key string) bool { return s.k.Exists(key) }

// asMap turns the default configuration of a plugin into general types through its JSON
// form, which is what its settings are decoded from.
func asMap(config any) (map[string]any, error) {
	data, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	var out map[string]any
	if err := dec.Decode(&out); err != nil {
		return nil, err
	}
	return plainNumbers(out).(map[string]any), nil
}

// plainNumbers replaces json.Number by int64, uint64 or float64.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			v[key] = plainNumbers(child)
		}
		return v
	case []any:
		for i, child := range v {
			v[i] = plainNumbers(child)
		}
		return v
	case json.Number:
		return number(v)
	default:
		return v
	}
}

func number(n json.Number) any {
	var u uint64
	if i, err := n.Int64(); err == nil {
		return i
	}
	if err := json.Unmarshal([]byte(n), &u); err == nil {
		return u
	}
	f, _ := n.Float64() // json.Marshal wrote it, so it is one
	return f
}
