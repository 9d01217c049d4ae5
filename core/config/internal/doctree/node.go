package doctree

import "fmt"

// Kind is what a node is.
type Kind uint8

// The kinds.
const (
	Scalar Kind = iota
	Null
	List
	Map
)

// String names the kind as error messages do.
func (k Kind) String() string {
	return [...]string{"a single value", "nothing", "a list", "a mapping"}[k]
}

// Node is one value of the file.
type Node struct {
	Kind Kind
	// Line counts from 1. For the value of a key it is the line of the key.
	Line int
	// Text is the scalar as written, without quotes.
	Text string
	// Value is the scalar as the format types it: string, bool, int64, uint64 or float64.
	Value any
	// Items are the elements of a list, Fields the entries of a mapping in file order.
	Items  []Node
	Fields []Field
}

// Field is an entry of a mapping.
type Field struct {
	Key   string
	Value Node
}

// Any returns the value as Go's general types: map[string]any, []any or the scalar.
func (n Node) Any() any {
	switch n.Kind {
	case Map:
		out := make(map[string]any, len(n.Fields))
		for _, f := range n.Fields {
			out[f.Key] = f.Value.Any()
		}
		return out
	case List:
		out := make([]any, len(n.Items))
		for i, item := range n.Items {
			out[i] = item.Any()
		}
		return out
	case Null:
		return nil
	default:
		return n.Value
	}
}

// Error says what is wrong with a file and, where Line is not 0, on which line.
type Error struct {
	Line int
	Msg  string
}

// Error returns the message without the line, which the caller prints with the name of
// the file.
func (e *Error) Error() string { return e.Msg }

func errorf(line int, format string, args ...any) *Error {
	return &Error{Line: line, Msg: fmt.Sprintf(format, args...)}
}

// seen remembers the keys of one mapping and their lines.
type seen map[string]int

// add reports a key that the mapping already has.
func (s seen) add(key string, line int) error {
	if first, ok := s[key]; ok {
		return errorf(line, "the key %q was already given on line %d; remove one of the two", key, first)
	}
	s[key] = line
	return nil
}
