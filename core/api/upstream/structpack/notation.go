package structpack

import "strings"

// most is the longest notation, and deepest the deepest nesting, that Notation writes out.
const (
	most    = 1000
	deepest = 32
)

var numbers = map[byte]string{
	0x01: "i32", 0x02: "u32", 0x03: "i64", 0x04: "u64", 0x05: "i8", 0x06: "u8", 0x07: "i16", 0x08: "u16",
	0x0b: "bool", charCode: "char", 0x11: "f32", 0x12: "f64", 0xfa: "void",
}

var containers = map[byte]string{
	mapCode: "map", setCode: "set", vectorCode: "list", optionalCode: "optional", expectedCode: "expected",
}

// Notation writes a literal for a person: "{string list<u64> bool}". It ends with "?" at a code that
// it does not know, from where on nothing is certain.
func Notation(literal []byte) string {
	n := notation{rest: literal}
	if n.element(0); len(n.rest) > 0 {
		n.unknown()
	}
	return n.text.String()
}

type notation struct {
	rest []byte
	text strings.Builder
}

func (n *notation) unknown() bool {
	n.text.WriteByte('?')
	n.rest = nil
	return false
}

// element writes one type. It reports whether the rest can be read.
func (n *notation) element(depth int) bool {
	if len(n.rest) == 0 || depth > deepest || n.text.Len() > most {
		return n.unknown()
	}
	code := n.rest[0]
	n.rest = n.rest[1:]
	switch {
	case numbers[code] != "":
		n.text.WriteString(numbers[code])
		return true
	case code == stringCode && len(n.rest) > 0:
		n.rest = n.rest[1:] // the type of the characters
		n.text.WriteString("string")
		return true
	case code == structBegin:
		return n.list("{", "}", depth)
	case code == variantCode:
		return n.list("one of(", ")", depth)
	case containers[code] != "":
		return n.container(code, depth)
	}
	return n.unknown()
}

func (n *notation) container(code byte, depth int) bool {
	n.text.WriteString(containers[code] + "<")
	if !n.element(depth + 1) {
		return false
	}
	if code == mapCode || code == expectedCode {
		n.text.WriteByte(' ')
		if !n.element(depth + 1) {
			return false
		}
	}
	n.text.WriteByte('>')
	return true
}

// list writes types up to the end of the list. Two sizes of up to 16 before the end are the alignment.
func (n *notation) list(begin, end string, depth int) bool {
	n.text.WriteString(begin)
	for first := true; ; first = false {
		if len(n.rest) >= 3 && n.rest[0] >= 0x82 && n.rest[0] <= 0x91 && n.rest[0] == n.rest[1] && n.rest[2] == listEnd {
			n.rest = n.rest[2:]
		}
		if len(n.rest) > 0 && n.rest[0] == listEnd {
			n.rest = n.rest[1:]
			n.text.WriteString(end)
			return true
		}
		if !first {
			n.text.WriteByte(' ')
		}
		if !n.element(depth + 1) {
			return false
		}
	}
}
