package config

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Dump prints the effective configuration as YAML that Load reads back to the same
// Config, except for what is redacted.
func (l *Loaded) Dump() ([]byte, error) {
	root := mapping()
	sections := map[string]*yaml.Node{}
	for _, f := range schema() {
		section := sections[f.section]
		if section == nil {
			section = mapping()
			sections[f.section] = section
			root.Content = append(root.Content, text(f.section), section)
		}
		n, err := leaf(f.key, l.values[f.key])
		if err != nil {
			return nil, err
		}
		section.Content = append(section.Content, text(f.name), n)
	}
	plugins, _ := l.tree["plugins"].(map[string]any)
	for _, kind := range plugin.Kinds() {
		if plugins[kind] == nil {
			continue
		}
		n := new(yaml.Node)
		if err := n.Encode(redactTree("plugins."+kind, plugins[kind])); err != nil {
			return nil, fmt.Errorf("print plugins.%s: %w", kind, err)
		}
		sections["plugins"].Content = append(sections["plugins"].Content, text(kind), n)
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return nil, fmt.Errorf("print the configuration: %w", err)
	}
	return out.Bytes(), nil
}

func mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode} }

func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

func leaf(key string, v any) (*yaml.Node, error) {
	n := new(yaml.Node)
	var err error
	switch v := v.(type) {
	case bool, int, float64, []string:
		err = n.Encode(v)
	default:
		n = text(Redact(key, format(v)))
	}
	if err != nil {
		return nil, fmt.Errorf("print %s: %w", key, err)
	}
	if n.Kind == yaml.SequenceNode {
		n.Style = yaml.FlowStyle
	}
	return n, nil
}

// redactTree copies a free-form tree with every text in it redacted.
func redactTree(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, child := range v {
			out[name] = redactTree(joinKey(key, name), child)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, child := range v {
			out[i] = redactTree(key, child)
		}
		return out
	case nil, bool: // no secret fits in them
		return v
	case int64, uint64, float64:
		if shown := format(v); Redact(key, shown) != shown {
			return redacted
		}
		return v
	default:
		return Redact(key, format(v))
	}
}
