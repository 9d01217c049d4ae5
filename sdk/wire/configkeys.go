package wire

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// unknownKey returns an error for the first key, in order of its path, that the
// configuration has no field for, with the nearest one that exists.
func unknownKey(cfg any, tree map[string]any) error {
	return walkKeys(reflect.TypeOf(cfg), tree, "")
}

func walkKeys(t reflect.Type, value any, path string) error {
	for t.Kind() == reflect.Pointer && !opaque(t) {
		t = t.Elem()
	}
	if opaque(t) {
		return nil
	}
	switch v := value.(type) {
	case map[string]any:
		return walkObject(t, v, path)
	case []any:
		if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
			for i, e := range v {
				if err := walkKeys(t.Elem(), e, fmt.Sprintf("%s[%d]", path, i)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func walkObject(t reflect.Type, object map[string]any, path string) error {
	keys := make([]string, 0, len(object))
	for k := range object {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var fields map[string]reflect.Type
	if t.Kind() == reflect.Struct {
		fields = map[string]reflect.Type{}
		collectFields(t, fields)
	} else if t.Kind() != reflect.Map {
		return nil // A type error, which the decoder reports.
	}
	for _, k := range keys {
		at := strings.TrimPrefix(path+"."+k, ".")
		elem, ok := fields[k]
		switch {
		case fields == nil:
			elem = t.Elem()
		case !ok:
			return unknown(at, k, fields)
		}
		if err := walkKeys(elem, object[k], at); err != nil {
			return err
		}
	}
	return nil
}

func unknown(path, key string, fields map[string]reflect.Type) error {
	known := make([]string, 0, len(fields))
	for f := range fields {
		known = append(known, f)
	}
	if len(known) == 0 {
		return fmt.Errorf("unknown setting %q: there are no settings here", path)
	}
	slices.Sort(known)
	best := slices.MinFunc(known, func(a, b string) int { return distance(key, a) - distance(key, b) })
	if distance(key, best) <= max(2, len(best)/3) {
		return fmt.Errorf("unknown setting %q: did you mean %q?", path, best)
	}
	return fmt.Errorf("unknown setting %q: the settings here are %s", path, strings.Join(known, ", "))
}

func collectFields(t reflect.Type, into map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			collectFields(inner, into)
		case !f.IsExported() || name == "-":
		case name == "":
			into[f.Name] = f.Type
		default:
			into[name] = f.Type
		}
	}
}

// opaque reports whether a type decodes itself, so that its keys are its own business.
func opaque(t reflect.Type) bool {
	for _, p := range []reflect.Type{t, reflect.PointerTo(t)} {
		if p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			return true
		}
	}
	return t.Kind() == reflect.Interface
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
