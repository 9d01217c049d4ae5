package plugin

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Defaults returns a new C, a struct, whose fields have the values of their tags default: see SchemaOf. It panics on a
// tag that does not fit its field, which is an error of the plugin's author that shows at the first use.
func Defaults[C any]() *C {
	c := new(C)
	if err := setDefaults(reflect.ValueOf(c).Elem()); err != nil {
		panic(err)
	}
	return c
}

func setDefaults(v reflect.Value) error {
	return eachField(v, func(_ string, tag reflect.StructTag, v reflect.Value) error {
		if text, given := tag.Lookup("default"); given {
			return parseInto(v, text)
		}
		if v.Kind() == reflect.Struct && !opaque(v.Type()) {
			return setDefaults(v)
		}
		return nil
	})
}

// parseInto sets a field to the value that a tag writes as text.
func parseInto(v reflect.Value, text string) error {
	kind := v.Kind()
	var err error
	switch {
	case v.Type() == durationType:
		var d time.Duration
		d, err = time.ParseDuration(text)
		v.SetInt(int64(d))
	case kind == reflect.String:
		v.SetString(text)
	case kind == reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(text)
		v.SetBool(b)
	case isInteger(kind):
		var n int64
		if n, err = wholeNumber(text); err == nil {
			v.Set(reflect.ValueOf(n).Convert(v.Type()))
			err = same(fmt.Sprint(v.Interface()), strconv.FormatInt(n, 10))
		}
	case kind == reflect.Float32 || kind == reflect.Float64:
		var x float64
		x, err = strconv.ParseFloat(text, 64)
		v.SetFloat(x)
	default:
		err = fmt.Errorf("a %s has no value of tags", v.Type())
	}
	if err != nil {
		return fmt.Errorf("%q is not a value of a %s: %w", text, v.Type(), err)
	}
	return nil
}

func same(a, b string) error {
	if a != b {
		return fmt.Errorf("it becomes %s", a)
	}
	return nil
}

// wholeNumber reads a number that may have a unit from KiB to PiB.
func wholeNumber(text string) (int64, error) {
	scale := 0
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if number, found := strings.CutSuffix(text, unit); found {
			text, scale = number, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && (n > math.MaxInt64>>scale || n < math.MinInt64>>scale) {
		err = strconv.ErrRange
	}
	return n << scale, err
}

var durationType = reflect.TypeFor[Duration]()

// eachField calls f for each setting of a struct, embedded ones among them.
func eachField(v reflect.Value, f func(name string, tag reflect.StructTag, v reflect.Value) error) error {
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		switch {
		case sf.Anonymous && name == "" && sf.Type.Kind() == reflect.Struct:
			if err := eachField(v.Field(i), f); err != nil {
				return err
			}
			continue
		case !sf.IsExported() || name == "-":
			continue
		case name == "":
			name = sf.Name
		}
		if err := f(name, sf.Tag, v.Field(i)); err != nil {
			return fmt.Errorf("field %s of %s: %w", sf.Name, v.Type(), err)
		}
	}
	return nil
}

func isInteger(k reflect.Kind) bool { return k >= reflect.Int && k <= reflect.Uint64 }

// opaque reports whether a type decodes itself, so that its form is its own business.
func opaque(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Kind() == reflect.Interface || p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
