package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
)

// Config is the decoded configuration of a plugin: a pointer to a struct with the tags of SchemaOf. A type without
// settings is NoConfig.
type Config interface {
	// Validate reports the first setting that cannot work, naming it, its value and what
	// is allowed. It has no side effects. The tags are judged before: it is for rules that
	// they cannot express.
	Validate() error
}

// NoConfig is the configuration of a plugin that has no settings.
type NoConfig struct{}

// Validate accepts.
func (*NoConfig) Validate() error { return nil }

// Described is a Config whose settings are not the fields of a struct: it returns their schema itself.
type Described interface {
	SettingsSchema() (json.RawMessage, error)
}

// SchemaOf returns the JSON Schema (draft 2020-12) of the settings that a struct decodes, or of none. cfg is a pointer
// to the struct with its defaults. The struct is the only place where a setting is described:
//
//	Workers int      `json:"workers" default:"4" range:"1..64" doc:"threads that copy"`
//	Buffer  int64    `json:"buffer" default:"64MiB" range:"4KiB.."`
//	Timeout Duration `json:"timeout" default:"30s" range:"1ms..24h"`
//	Mode    string   `json:"mode" default:"auto" enum:"auto|fast"`
//	Hosts   []string `json:"hosts" length:"..8"`
//
// range bounds numbers and durations, either end may be absent; whole numbers may have a unit from KiB to PiB. length
// bounds the items of a list and the characters of a text. required:"true" marks a setting without which the plugin
// does not start. Defaults sets what default says. Rules over several settings are for Config.Validate.
//
// A wrong tag is an error that names the field.
func SchemaOf(cfg Config) (json.RawMessage, error) {
	if d, ok := cfg.(Described); ok {
		return d.SettingsSchema()
	}
	v := reflect.Indirect(reflect.ValueOf(cfg))
	if v.Kind() != reflect.Struct {
		return nil, fmt.Errorf("the settings are a %T, must be a pointer to a struct", cfg)
	}
	top, err := objectOf(v, "")
	if err != nil {
		return nil, err
	}
	top.Schema, top.Comment = "https://json-schema.org/draft/2020-12/schema", generated
	return encode(top)
}

// Validate judges a whole configuration: by the schema of its struct, and then by its own Validate.
func Validate(cfg Config) error {
	if _, described := cfg.(Described); !described {
		schema, err := SchemaOf(cfg)
		if err != nil {
			return err
		}
		text, err := json.Marshal(cfg)
		if err == nil {
			err = CheckSettings(schema, text)
		}
		if err != nil {
			return err
		}
	}
	return cfg.Validate()
}

// generated is the comment of a schema that was made from a struct. In a manifest it says that the manifest has to be
// exactly what the struct says.
const generated = "made by SchemaOf from the tags of the program's settings"

// property is a part of a JSON Schema, with its keywords in the order of the file.
type property struct {
	Schema        string      `json:"$schema,omitempty"`
	Comment       string      `json:"$comment,omitempty"`
	Type          string      `json:"type,omitempty"`
	Format        string      `json:"format,omitempty"`
	Minimum       json.Number `json:"minimum,omitempty"`
	Maximum       json.Number `json:"maximum,omitempty"`
	FormatMinimum string      `json:"formatMinimum,omitempty"`
	FormatMaximum string      `json:"formatMaximum,omitempty"`
	MinLength     json.Number `json:"minLength,omitempty"`
	MaxLength     json.Number `json:"maxLength,omitempty"`
	MinItems      json.Number `json:"minItems,omitempty"`
	MaxItems      json.Number `json:"maxItems,omitempty"`
	Enum          []any       `json:"enum,omitempty"`
	Items         *property   `json:"items,omitempty"`
	Additional    any         `json:"additionalProperties,omitempty"`
	Required      []string    `json:"required,omitempty"`
	Properties    properties  `json:"properties,omitempty"`
	Default       any         `json:"default,omitempty"`
	Description   string      `json:"description,omitempty"`
}

// properties are in the order of the struct.
type properties []named

type named struct {
	name string
	property
}

// MarshalJSON implements json.Marshaler.
func (ps properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, p := range ps {
		text, err := encode(p.property)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", p.name, text)
	}
	return append(append([]byte{'{'}, b.Bytes()...), '}'), nil
}

func objectOf(v reflect.Value, doc string) (property, error) {
	p := property{Type: "object", Additional: false, Description: doc}
	err := eachField(v, func(name string, tag reflect.StructTag, v reflect.Value) error {
		inner, err := propertyOf(v, tag)
		p.Properties = append(p.Properties, named{name, inner})
		if tag.Get("required") == "true" {
			p.Required = append(p.Required, name)
		}
		return err
	})
	return p, err
}

// propertyOf describes a field. Its value is the default.
func propertyOf(v reflect.Value, tag reflect.StructTag) (property, error) {
	if v.Kind() == reflect.Struct && !opaque(v.Type()) {
		return objectOf(v, tag.Get("doc"))
	}
	p, err := typed(v.Type())
	if err != nil {
		return p, err
	}
	p.Description = tag.Get("doc")
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Interface, reflect.Struct: // unset
	default:
		p.Default = v.Interface()
	}
	if e := tag.Get("enum"); e != "" {
		for _, text := range strings.Split(e, "|") {
			one := reflect.New(v.Type()).Elem()
			if err := parseInto(one, text); err != nil {
				return p, fmt.Errorf("enum: %w", err)
			}
			p.Enum = append(p.Enum, one.Interface())
		}
	}
	return p, p.bound(v.Type(), tag)
}

// typed describes a type, without what tags add.
func typed(t reflect.Type) (p property, err error) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch kind := t.Kind(); {
	case t == durationType:
		p.Type, p.Format = "string", durationFormat
	case opaque(t):
	case kind == reflect.Bool:
		p.Type = "boolean"
	case isInteger(kind):
		p.Type = "integer"
	case kind == reflect.Float32 || kind == reflect.Float64:
		p.Type = "number"
	case kind == reflect.String, kind == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		p.Type = "string"
	case kind == reflect.Struct:
		return objectOf(reflect.Zero(t), "")
	case kind == reflect.Slice || kind == reflect.Array:
		p.Type, p.Items = "array", new(property)
		*p.Items, err = typed(t.Elem())
	case kind == reflect.Map:
		p.Type = "object"
		p.Additional, err = typed(t.Elem())
	default:
		err = fmt.Errorf("a %s cannot be a setting", t)
	}
	return p, err
}

// bound adds the tags range and length.
func (p *property) bound(t reflect.Type, tag reflect.StructTag) error {
	if text, given := tag.Lookup("range"); given {
		low, high, err := ends(text, func(s string) (string, error) {
			v := reflect.New(t).Elem()
			if err := parseInto(v, s); err != nil {
				return "", err
			}
			return fmt.Sprint(v.Interface()), nil
		})
		switch {
		case err != nil:
			return fmt.Errorf("range: %w", err)
		case p.Format == durationFormat:
			p.FormatMinimum, p.FormatMaximum = low, high
		case p.Type == "integer" || p.Type == "number":
			p.Minimum, p.Maximum = json.Number(low), json.Number(high)
		default:
			return fmt.Errorf("range bounds numbers and durations; for a %s there is length", t)
		}
	}
	if text, given := tag.Lookup("length"); given {
		low, high, err := ends(text, func(s string) (string, error) { n, err := wholeNumber(s); return fmt.Sprint(n), err })
		switch {
		case err != nil:
			return fmt.Errorf("length: %w", err)
		case p.Type == "array":
			p.MinItems, p.MaxItems = json.Number(low), json.Number(high)
		case p.Type == "string" && p.Format == "":
			p.MinLength, p.MaxLength = json.Number(low), json.Number(high)
		default:
			return fmt.Errorf("length bounds lists and texts; for a %s there is range", t)
		}
	}
	return nil
}

// ends reads LOW..HIGH.
func ends(text string, read func(string) (string, error)) (low, high string, err error) {
	low, high, found := strings.Cut(text, "..")
	if !found || low == "" && high == "" {
		return "", "", fmt.Errorf("%q is not LOW..HIGH", text)
	}
	for _, end := range []*string{&low, &high} {
		if *end == "" || err != nil {
			continue
		}
		*end, err = read(*end)
	}
	return low, high, err
}

var (
	flatLists   = regexp.MustCompile(`\[[^\[\]{}]*\]`)
	deepLines   = regexp.MustCompile(`(,?)\n {8,}|\n {6}}`)
	breaksInOne = regexp.MustCompile(`(,?)\n *`)
)

// RewriteManifest returns the text of a manifest file with another schema, and leaves the rest as it is.
func RewriteManifest(text string, schema json.RawMessage) (string, error) {
	start, end, err := schemaAt(text)
	if err != nil {
		return "", fmt.Errorf("plugin manifest: %w", err)
	}
	made, err := layout(schema)
	if err != nil {
		return "", fmt.Errorf("the schema of the settings: %w", err)
	}
	if start > 0 {
		return text[:start] + made + text[end:], nil
	}
	before := strings.TrimRight(text[:end], " \t\r\n")
	if !strings.HasSuffix(before, "{") {
		before += ","
	}
	return before + "\n  \"config_schema\": " + made + "\n" + text[end:], nil
}

// schemaAt returns where the schema in a manifest begins and ends; without one, 0 and where the manifest ends.
func schemaAt(text string) (start, end int, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return 0, 0, errors.New("it is not a JSON object")
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return 0, 0, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return 0, 0, err
		}
		if key == "config_schema" {
			end = int(dec.InputOffset())
			start = end - len(value)
		}
	}
	if _, err := dec.Token(); err != nil {
		return 0, 0, err
	}
	if start == 0 {
		end = int(dec.InputOffset()) - 1
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return 0, 0, errors.New("there is more than one JSON object")
	}
	return start, end, nil
}

// layout writes a schema with a line for each setting, for a manifest file.
func layout(schema json.RawMessage) (string, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, schema, "  ", "  "); err != nil {
		return "", err
	}
	join := func(s string) string { // A text in JSON has no line break of its own.
		switch s[0] {
		case ',':
			return ", "
		default:
			return strings.Trim(s, "\n ")
		}
	}
	text := flatLists.ReplaceAllStringFunc(b.String(), func(list string) string { return breaksInOne.ReplaceAllStringFunc(list, join) })
	return deepLines.ReplaceAllStringFunc(text, join), nil
}
