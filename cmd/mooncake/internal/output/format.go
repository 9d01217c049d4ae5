// Package output prints the results of verbs: as JSON or YAML for programs, and as text and
// tables for people.
package output

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Format is the form of an output, as the flag --output names it.
type Format string

// The formats that several verbs have.
const (
	Text  Format = "text"
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// Flag adds the flag -o, --output, which accepts the given formats. The first is the default.
// An empty usage lists the formats.
func Flag(fs *pflag.FlagSet, f *Format, usage string, allowed ...Format) {
	if usage == "" {
		names := make([]string, len(allowed))
		for i, a := range allowed {
			names[i] = string(a)
		}
		last := len(names) - 1
		usage = strings.Join(names[:last], ", ") + " or " + names[last]
	}
	*f = allowed[0]
	fs.VarP(&flag{f, allowed}, "output", "o", usage)
}

// flag is the pflag.Value of a format.
type flag struct {
	*Format
	allowed []Format
}

func (f *flag) String() string {
	if f.Format == nil {
		return ""
	}
	return string(*f.Format)
}

func (f *flag) Type() string { return "string" }

func (f *flag) Set(text string) error {
	if !slices.Contains(f.allowed, Format(text)) {
		return fmt.Errorf("output format %q is not one of %v", text, f.allowed)
	}
	*f.Format = Format(text)
	return nil
}

// Print writes v as JSON or YAML. For every other format it lets text write.
func Print(w io.Writer, f Format, v any, text func(io.Writer)) error {
	switch f {
	case JSON:
		return WriteJSON(w, v)
	case YAML:
		return yaml.NewEncoder(w).Encode(v)
	}
	buffered := bufio.NewWriter(w) // It also keeps the first error.
	text(buffered)
	return buffered.Flush()
}

// WriteJSON writes v as JSON, indented by two spaces.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
