package doctree

import (
	"bytes"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// ParseYAML parses one YAML document. Errors are of type *Error.
func ParseYAML(data []byte) (Node, error) {
	if err := checkBytes(data); err != nil {
		return Node{}, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return Node{}, errEmpty()
	} else if err != nil {
		return Node{}, yamlError(err)
	}
	if err := dec.Decode(&second); err == nil {
		return Node{}, errorf(second.Line, "holds more than one YAML document; a configuration is one document")
	} else if !errors.Is(err, io.EOF) {
		return Node{}, yamlError(err)
	}
	n, err := convert(&doc, &budget{}, 0)
	if err != nil {
		return Node{}, err
	}
	return top(n)
}

func yamlError(err error) error {
	m := yamlLine.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	if m == nil {
		return errorf(0, "is not valid YAML: %v", err)
	}
	line, _ := strconv.Atoi(m[1]) // empty where the parser gave no line: 0
	return errorf(line, "is not valid YAML: %s", m[2])
}

func convert(y *yaml.Node, b *budget, depth int) (Node, error) {
	if err := b.take(y.Line, depth); err != nil {
		return Node{}, err
	}
	if y.Anchor != "" || y.Kind == yaml.AliasNode {
		return Node{}, errorf(y.Line, "uses a YAML anchor or alias, which a configuration may not; write the value out")
	}
	switch y.Kind {
	case yaml.DocumentNode:
		return convert(y.Content[0], b, depth)
	case yaml.MappingNode:
		return convertMap(y, b, depth)
	case yaml.SequenceNode:
		out := Node{Kind: List, Line: y.Line}
		for _, item := range y.Content {
			n, err := convert(item, b, depth+1)
			if err != nil {
				return Node{}, err
			}
			out.Items = append(out.Items, n)
		}
		return out, nil
	default:
		return convertScalar(y)
	}
}

func convertMap(y *yaml.Node, b *budget, depth int) (Node, error) {
	out, keys := Node{Kind: Map, Line: y.Line}, seen{}
	for i := 0; i+1 < len(y.Content); i += 2 {
		k, v := y.Content[i], y.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.Anchor != "" {
			return Node{}, errorf(k.Line, "has a key that is not plain text")
		}
		if err := keys.add(k.Value, k.Line); err != nil {
			return Node{}, err
		}
		n, err := convert(v, b, depth+1)
		if err != nil {
			return Node{}, err
		}
		n.Line = k.Line
		out.Fields = append(out.Fields, Field{Key: k.Value, Value: n})
	}
	return out, nil
}

func convertScalar(y *yaml.Node) (Node, error) {
	n := Node{Kind: Scalar, Line: y.Line, Text: y.Value}
	var v any
	if err := y.Decode(&v); err != nil {
		return Node{}, errorf(y.Line, "is not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	switch v := v.(type) {
	case nil:
		n.Kind = Null
	case int:
		n.Value = int64(v)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return Node{}, errorf(y.Line, "has a number that is not finite")
		}
		n.Value = v
	case bool, int64, uint64:
		n.Value = v
	default: // text, and what YAML takes for a date
		n.Value = y.Value
	}
	return n, nil
}
