// Package doctree reads a configuration file, YAML or JSON, into a tree in which every
// value knows its line.
//
// It is stricter than the formats: one document, a mapping at the top, no duplicate
// keys, no anchors or aliases, at most MaxBytes bytes and MaxDepth levels. Nothing is
// decoded into types here; a scalar keeps its text.
package doctree

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// The bounds of a file.
const (
	MaxBytes = 1 << 20
	MaxDepth = 16
	maxNodes = 100_000
)

// ReadFile reads the file at path, as JSON for the extension .json and as YAML for .yaml
// and .yml. Errors are of type *Error.
func ReadFile(path string) (Node, error) {
	parse, err := parserOf(path)
	if err != nil {
		return Node{}, err
	}
	data, err := readBounded(path)
	if err != nil {
		return Node{}, err
	}
	return parse(data)
}

func parserOf(path string) (func([]byte) (Node, error), error) {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".yaml", ".yml":
		return ParseYAML, nil
	case ".json":
		return ParseJSON, nil
	case "":
		return nil, errorf(0, "the file name has no extension; it must end in .yaml, .yml or .json")
	default:
		return nil, errorf(0, "files of type %s are not understood; the name must end in .yaml, .yml or .json", ext)
	}
}

// readBounded reads a regular file of at most MaxBytes bytes. A pipe or device is refused,
// since reading it may never end.
func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, openError(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errorf(0, "is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, openError(err)
	}
	defer f.Close() //nolint:errcheck // only read from
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, errorf(0, "cannot be read: %v", err)
	}
	return data, nil
}

func openError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errorf(0, "does not exist; check the path, or leave the setting out to run on defaults")
	case errors.Is(err, fs.ErrPermission):
		return errorf(0, "may not be read by this user; check its owner and mode")
	default:
		return errorf(0, "cannot be read: %v", errors.Unwrap(err))
	}
}

// checkBytes refuses what neither parser should see.
func checkBytes(data []byte) error {
	switch {
	case len(data) > MaxBytes:
		return errorf(0, "is larger than a configuration file may be (1 MiB)")
	case len(strings.TrimSpace(string(data))) == 0:
		return errEmpty()
	case !utf8.Valid(data):
		return errorf(0, "is not UTF-8 text")
	}
	return nil
}

func errEmpty() error {
	return errorf(0, "is empty; write at least {} or leave the setting out to run on defaults")
}

// budget bounds the number of nodes, so that a small file cannot become a large tree.
type budget struct{ nodes int }

func (b *budget) take(line, depth int) error {
	if b.nodes++; b.nodes > maxNodes {
		return errorf(line, "holds more than %d values", maxNodes)
	}
	if depth > MaxDepth {
		return errorf(line, "is nested more than %d levels deep", MaxDepth)
	}
	return nil
}

// top checks that the file is a mapping.
func top(n Node) (Node, error) {
	if n.Kind == Null {
		return Node{}, errEmpty()
	}
	if n.Kind != Map {
		return Node{}, errorf(n.Line, "must hold a mapping of keys to values at the top, not %s", n.Kind)
	}
	return n, nil
}
