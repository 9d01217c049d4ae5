package recording

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Bounds of a recording.
const (
	MaxBytes   = 32 << 20
	maxEntries = 400_000
	maxPath    = 4096
)

// header begins the first line.
const header = "# mooncake machine recording"

// WriteTo writes the text. Files end with a line end.
func (r *Recording) WriteTo(w io.Writer) (int64, error) {
	b := bufio.NewWriter(w)
	n := 0
	line := func(parts ...string) {
		for _, p := range parts {
			m, _ := b.WriteString(p) //nolint:errcheck // Flush returns it.
			n += m
		}
	}
	line(header, " 1\n")
	for _, name := range r.names() {
		switch e := r.entries[name]; e.kind {
		case link:
			line("== ", name, " -> ", e.text, "\n")
		case dir:
			line("== ", name, "/\n")
		default:
			line("== ", name, "\n")
			if e.text != "" {
				for l := range strings.SplitSeq(strings.TrimSuffix(e.text, "\n"), "\n") {
					line(quoteLine(l), "\n")
				}
			}
		}
	}
	return int64(n), b.Flush()
}

// Read reads the text. DeserializeFail for what is not a recording, with the line where it
// goes wrong.
func Read(from io.Reader) (*Recording, error) {
	const op = "topology: read the recording"
	lines := bufio.NewScanner(io.LimitReader(from, MaxBytes+1))
	lines.Buffer(nil, maxPath*4)
	lines.Split(splitLines)
	r, size, number := New(), 0, 0
	var name string // of the file that is being read
	var body strings.Builder
	for lines.Scan() {
		text := lines.Text()
		number++
		if size += len(text) + 1; size > MaxBytes {
			return nil, errs.New(errs.DeserializeFail, op, "it has more than %d bytes", MaxBytes)
		}
		head, isHead := strings.CutPrefix(text, "== ")
		switch {
		case number == 1 && !strings.HasPrefix(text, header):
			return nil, errs.WithHint(errs.New(errs.DeserializeFail, op, "it does not begin with %q", header), "mooncake topology --record makes one")
		case isHead:
			r.finish(name, &body)
			var err error
			if name, err = r.begin(head); err != nil {
				return nil, errs.Wrap(errs.DeserializeFail, op, fmt.Errorf("line %d: %w", number, err))
			}
		case name != "":
			body.WriteString(text + "\n")
		case number > 1 && strings.TrimSpace(text) != "" && !strings.HasPrefix(text, "#"):
			return nil, errs.New(errs.DeserializeFail, op, "line %d: %.80q belongs to no file", number, text)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, errs.Wrap(errs.DeserializeFail, op, fmt.Errorf("line %d: %w", number+1, err))
	}
	if number == 0 {
		return nil, errs.New(errs.DeserializeFail, op, "it is empty")
	}
	r.finish(name, &body)
	if err := r.check(); err != nil {
		return nil, errs.Wrap(errs.DeserializeFail, op, err)
	}
	return r, nil
}

// begin takes a header line and returns the name of the file whose lines follow, empty for
// what is not a file.
func (r *Recording) begin(head string) (string, error) {
	name, target, isLink := strings.Cut(head, " -> ")
	isDir := false
	if !isLink {
		name, isDir = strings.CutSuffix(name, "/")
	}
	if !fs.ValidPath(name) || name == "." || len(name) > maxPath {
		return "", fmt.Errorf("%.80q is not the path of a file", name)
	}
	if _, twice := r.entries[name]; twice {
		return "", fmt.Errorf("%.80q comes twice", name)
	}
	if len(r.entries) == maxEntries {
		return "", fmt.Errorf("there are more than %d files", maxEntries)
	}
	switch {
	case isLink && (target == "" || len(target) > maxPath):
		return "", fmt.Errorf("the link %.80q has no usable target", name)
	case isLink:
		r.Link(name, target)
		return "", nil
	case isDir:
		r.Dir(name)
		return "", nil
	}
	r.entries[name] = entry{}
	return name, nil
}

func (r *Recording) finish(name string, body *strings.Builder) {
	if name != "" {
		r.entries[name] = entry{file, body.String()}
	}
	body.Reset()
}

// check makes sure that nothing lies in a file or a link.
func (r *Recording) check() error {
	for _, name := range slices.Sorted(maps.Keys(r.entries)) {
		for d := path.Dir(name); d != "."; d = path.Dir(d) {
			if e, known := r.entries[d]; known && e.kind != dir {
				return errors.New(d + " is not a folder, but " + path.Base(name) + " lies in it")
			}
		}
	}
	return nil
}

// splitLines is bufio.ScanLines that keeps a carriage return.
func splitLines(data []byte, atEnd bool) (advance int, line []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEnd && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}
