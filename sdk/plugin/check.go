package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// SettingError says what is wrong with one setting.
type SettingError struct {
	// Name is the path of the setting, such as inner.list[2].depth.
	Name string
	// Text names the setting, what it is and what is allowed.
	Text string
}

// Error implements error.
func (e *SettingError) Error() string { return e.Text }

// SettingErrors are what CheckSettings finds, in the order of the names.
type SettingErrors []*SettingError

// Error lists the errors.
func (es SettingErrors) Error() string {
	texts := make([]string, len(es))
	for i, e := range es {
		texts[i] = e.Text
	}
	return strings.Join(texts, "; ")
}

// maxSettingErrors bounds what one check reports.
const maxSettingErrors = 16

// CheckSettings judges settings, a JSON object or nothing, by a JSON Schema: names, types, bounds and enumerations. The
// error is of type SettingErrors, or says that one of the two is not a JSON object. The plugin itself judges the rest,
// and what other keywords of the schema say: see Validate.
func CheckSettings(schema, settings json.RawMessage) error {
	var s schemaTree
	if len(schema) == 0 || len(bytes.TrimSpace(settings)) == 0 {
		return nil
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return fmt.Errorf("the schema of the settings is not a JSON object: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(settings))
	dec.UseNumber()
	var tree map[string]any
	if err := dec.Decode(&tree); err != nil || dec.More() {
		return errors.New("the settings are not a JSON object")
	}
	var c checker
	c.value(s, tree, "")
	if len(c) == 0 {
		return nil
	}
	return SettingErrors(c)
}

// schemaTree is a schema by anyone: a keyword that is not as expected says nothing.
type schemaTree map[string]any

func (s schemaTree) under(key string) (schemaTree, bool) {
	inner, ok := s[key].(map[string]any)
	return inner, ok
}

func (s schemaTree) text(key string) string {
	text, _ := s[key].(string)
	return text
}

// checker collects what is wrong.
type checker SettingErrors

func (c *checker) add(path, format string, args ...any) {
	if len(*c) < maxSettingErrors {
		*c = append(*c, &SettingError{path, fmt.Sprintf(format, args...)})
	}
}

func (c *checker) value(s schemaTree, v any, path string) {
	if v == nil {
		return // The default stays.
	}
	if want := s.text("type"); want != "" && !isType(want, v) {
		c.add(path, "%s is %s, must be %s", path, shown(v), typeNames[want])
		return
	}
	if enum, ok := s["enum"].([]any); ok && !slices.ContainsFunc(enum, func(e any) bool { return shown(e) == shown(v) }) {
		c.add(path, "%s is %s, must be %s", path, shown(v), oneOf(enum))
		return
	}
	switch v := v.(type) {
	case map[string]any:
		c.object(s, v, path)
	case []any:
		c.within(s, path, "Items", "items", len(v))
		if items, ok := s.under("items"); ok {
			for i, e := range v {
				c.value(items, e, fmt.Sprintf("%s[%d]", path, i))
			}
		}
	case string:
		c.text(s, v, path)
	case json.Number:
		x, _ := v.Float64() //nolint:errcheck // The decoder accepted it; too large is infinite.
		if low, high, bounded := boundsOf(s, "minimum", "maximum"); bounded && (x < low || x > high) {
			c.add(path, "%s is %s, must be %s", path, v, rangeText(s["minimum"], s["maximum"]))
		}
	}
}

func (c *checker) object(s schemaTree, object map[string]any, path string) {
	properties, _ := s.under("properties")
	other, open := s.under("additionalProperties")
	for _, name := range slices.Sorted(maps.Keys(object)) {
		at := strings.TrimPrefix(path+"."+name, ".")
		switch inner, known := properties[name].(map[string]any); {
		case known:
			c.value(inner, object[name], at)
		case open:
			c.value(other, object[name], at)
		case s["additionalProperties"] == false && properties[name] == nil:
			c.add(at, "%s", unknown(at, name, slices.Sorted(maps.Keys(properties))))
		}
	}
}

// within checks the length of a list or text.
func (c *checker) within(s schemaTree, path, key, unit string, n int) {
	low, high := "min"+key, "max"+key
	if least, most, bounded := boundsOf(s, low, high); bounded && (float64(n) < least || float64(n) > most) {
		c.add(path, "%s has %d %s, must have %s", path, n, unit, rangeText(s[low], s[high]))
	}
}

// durationFormat is the format of a Duration.
const durationFormat = "go-duration"

func (c *checker) text(s schemaTree, v, path string) {
	c.within(s, path, "Length", "characters", utf8.RuneCountInString(v))
	if pattern, err := regexp.Compile(s.text("pattern")); err == nil && !pattern.MatchString(v) {
		c.add(path, "%s is %s, must match %s", path, shown(v), pattern)
	}
	if s.text("format") != durationFormat {
		return
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		c.add(path, "%s is %s, which is not a duration; write it with a unit, such as \"30s\" or \"1m30s\"", path, shown(v))
		return
	}
	low, noLow := time.ParseDuration(s.text("formatMinimum"))
	high, noHigh := time.ParseDuration(s.text("formatMaximum"))
	if noLow == nil && d < low || noHigh == nil && d > high {
		c.add(path, "%s is %s, must be %s", path, v, rangeText(s["formatMinimum"], s["formatMaximum"]))
	}
}

func boundsOf(s schemaTree, low, high string) (least, most float64, bounded bool) {
	least, hasLow := s[low].(float64)
	most, hasHigh := s[high].(float64)
	if !hasLow {
		least = math.Inf(-1)
	}
	if !hasHigh {
		most = math.Inf(1)
	}
	return least, most, hasLow || hasHigh
}

func rangeText(low, high any) string {
	switch {
	case high == nil:
		return "at least " + bare(low)
	case low == nil:
		return "at most " + bare(high)
	}
	return bare(low) + " to " + bare(high)
}

func oneOf(enum []any) string {
	texts := make([]string, len(enum))
	for i, e := range enum {
		texts[i] = shown(e)
	}
	if last := len(texts) - 1; last > 0 {
		return strings.Join(texts[:last], ", ") + " or " + texts[last]
	}
	return strings.Join(texts, "")
}

var typeNames = map[string]string{
	"boolean": "true or false", "integer": "a whole number", "number": "a number", "string": "a text", "array": "a list", "object": "an object with settings",
}

func isType(want string, v any) bool {
	switch v := v.(type) {
	case bool:
		return want == "boolean" || typeNames[want] == ""
	case json.Number:
		x, err := v.Float64()
		return want == "number" || want == "integer" && err == nil && x == math.Trunc(x) || typeNames[want] == ""
	case string:
		return want == "string" || typeNames[want] == ""
	case []any:
		return want == "array" || typeNames[want] == ""
	}
	return want == "object" || typeNames[want] == ""
}

// bare is shown without the quotes of a text.
func bare(v any) string { return strings.Trim(shown(v), `"`) }

// shown returns a value as JSON, without the end of a long one. A number has no exponent if it is whole.
func shown(v any) string {
	switch x := v.(type) {
	case float64:
		if x == math.Trunc(x) && math.Abs(x) < 1<<62 {
			return fmt.Sprint(int64(x))
		}
	case json.Number:
		if y, err := x.Float64(); err == nil {
			if whole := shown(y); !strings.ContainsAny(whole, ".e") && strings.ContainsAny(x.String(), ".eE") {
				return whole
			}
		}
		return short([]byte(x))
	}
	text, err := encode(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return short(text)
}

func unknown(path, key string, known []string) string {
	if len(known) == 0 {
		return fmt.Sprintf("unknown setting %q: there are no settings here", path)
	}
	best := slices.MinFunc(known, func(a, b string) int { return distance(key, a) - distance(key, b) })
	if distance(key, best) <= max(2, len(best)/3) {
		return fmt.Sprintf("unknown setting %q: did you mean %q?", path, best)
	}
	return fmt.Sprintf("unknown setting %q: the settings here are %s", path, strings.Join(known, ", "))
}

// distance is the number of single-byte edits between two keys.
func distance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// encode is json.Marshal without escapes for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
