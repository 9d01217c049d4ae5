package matrix

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Bounds of what Parse and New accept.
const (
	MaxBytes     = 1 << 20 // of the JSON form
	MaxLocations = 4096
	MaxDevices   = 1024
	MaxName      = 255 // bytes of a location or a device
)

const parsing = "topology: parse the matrix"

// Parse reads the JSON form. Nothing, null and {} are an empty matrix. DeserializeFail for
// anything else than an object of pairs of lists of names; names are printable ASCII
// without blanks, quotes and backslashes.
func Parse(data []byte) (Matrix, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return Matrix{}, nil
	}
	if len(data) > MaxBytes {
		return Matrix{}, errs.New(errs.DeserializeFail, parsing, "it has %d bytes, more than %d", len(data), MaxBytes)
	}
	var raw map[string][][]name
	if err := json.Unmarshal(data, &raw); err != nil {
		return Matrix{}, errs.WithHint(errs.Wrap(errs.DeserializeFail, parsing, err),
			`the form is {"cpu:0":[["preferred"],["available"]]}`)
	}
	entries := make(map[string]Entry, len(raw))
	for location, lists := range raw {
		if len(lists) != 2 || lists[0] == nil || lists[1] == nil {
			return Matrix{}, errs.New(errs.DeserializeFail, parsing, "%q has not exactly two lists, preferred and available devices", location)
		}
		entries[location] = Entry{texts(lists[0]), texts(lists[1])}
	}
	return New(entries)
}

// name is a string: null, which encoding/json takes for one, is refused.
type name string

// UnmarshalJSON implements json.Unmarshaler.
func (n *name) UnmarshalJSON(b []byte) error {
	var s *string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if s == nil {
		return errors.New("a device is null")
	}
	*n = name(*s)
	return nil
}

func texts(names []name) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = string(n)
	}
	return out
}

// check applies the bounds, and the rule for names.
func check(entries map[string]Entry, devices []string) error {
	if len(entries) > MaxLocations {
		return errs.New(errs.DeserializeFail, parsing, "it has %d locations, more than %d", len(entries), MaxLocations)
	}
	if len(devices) > MaxDevices {
		return errs.New(errs.DeserializeFail, parsing, "it names %d devices, more than %d", len(devices), MaxDevices)
	}
	for location := range maps.Keys(entries) {
		if !valid(location) {
			return errs.New(errs.DeserializeFail, parsing, "%.300q is not the name of a location, such as cpu:0", location)
		}
	}
	for _, d := range devices {
		if !valid(d) {
			return errs.New(errs.DeserializeFail, parsing, "%.300q is not the name of a device, such as mlx5_0", d)
		}
	}
	return nil
}

// valid reports whether a name can stand in JSON as it is.
func valid(s string) bool {
	if s == "" || len(s) > MaxName {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// MarshalJSON returns the compact form without disabled devices, byte for byte as nodes of
// upstream write it: locations in byte order, null where there are none.
func (m Matrix) MarshalJSON() ([]byte, error) {
	if m.s == nil || len(m.s.entries) == 0 {
		return []byte("null"), nil
	}
	out := []byte{'{'}
	for i, location := range m.Locations() {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendName(out, location), ":["...)
		e := m.s.entries[location]
		out = append(m.s.appendList(out, e.Preferred), ',')
		out = append(m.s.appendList(out, e.Available), ']')
	}
	return append(out, '}'), nil
}

// UnmarshalJSON is Parse.
func (m *Matrix) UnmarshalJSON(data []byte) error {
	parsed, err := Parse(data)
	if err != nil {
		return err
	}
	*m = parsed
	return nil
}

// String returns the compact form.
func (m Matrix) String() string {
	b, _ := m.MarshalJSON() //nolint:errcheck // It has no error to return.
	return string(b)
}

func (s *state) appendList(out []byte, devices []string) []byte {
	out = append(out, '[')
	first := true
	for _, d := range devices {
		if s.off[d] {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		out = appendName(out, d)
	}
	return append(out, ']')
}

// appendName appends a name, which needs no escapes unless a caller of Only made it up.
func appendName(out []byte, s string) []byte {
	if !valid(s) {
		quoted, _ := json.Marshal(s) //nolint:errcheck // A string always has a form.
		return append(out, quoted...)
	}
	return append(append(append(out, '"'), s...), '"')
}
