package calls

import (
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestRandom encodes random messages of every function in every version and decodes them: nothing is
// lost and nothing is added, with and without the literal. A request is decoded alike in every
// version that shares its shape.
func TestRandom(t *testing.T) {
	for _, f := range Functions {
		t.Run(f.Name(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				v := drawVersion(t, f)
				call, literal := f.(untyped), rapid.Bool().Draw(t, "literal")
				sent, got := call.untypedRequest(v), call.untypedRequest(v)
				roundTrip(t, v, &sent, &got, literal)
				if sent.schema.Hash != 0 {
					body, err := sent.append(nil, literal)
					require.NoError(t, err)
					for shared := oldest; shared <= newest; shared++ {
						same := f.Versions().Has(shared) && call.untypedRequest(shared).schema.Literal == sent.schema.Literal
						require.Equal(t, same, f.Accepts(body).Has(shared))
					}
				}
				sent, got = call.untypedResponse(v), call.untypedResponse(v)
				roundTrip(t, v, &sent, &got, literal)
			})
		})
	}
}

func drawVersion(t *rapid.T, f Function) Version {
	return rapid.SampledFrom(f.Versions().list()).Draw(t, "version")
}

// list returns the versions of the set.
func (s Versions) list() (list []Version) {
	for v := oldest; v <= newest; v++ {
		if s.Has(v) {
			list = append(list, v)
		}
	}
	return list
}

func roundTrip(t *rapid.T, v Version, sent, got *message, literal bool) {
	fill(t, v, sent.value)
	body, err := sent.append([]byte("before"), literal)
	require.NoError(t, err)
	body = body[len("before"):]
	require.NoError(t, got.decode(body), hex.EncodeToString(body))
	require.Equal(t, sent.value.Interface(), got.value.Interface())
	if got.schema.Hash != 0 {
		require.Equal(t, literal, hasLiteral(body))
		require.Error(t, got.decode(body[:len(body)-1]), "the last byte counts")
	}
}

// fill draws a value that a version can encode.
func fill(t *rapid.T, v Version, x reflect.Value) {
	switch m := x.Addr().Interface().(type) {
	case *SoftPin:
		*m = SoftPin(rapid.Uint8().Draw(t, "pin"))
		if v < V13 {
			*m &= SoftPinEnable
		}
		return
	case *Descriptor:
		fillDescriptor(t, v, m)
		return
	case *errs.Code:
		*m = errs.Code(rapid.Int32Max(0).Draw(t, "code"))
		return
	case *OffloadTask:
		if m.Key = drawString(t); v >= V12 {
			m.Tenant = drawString(t)
			m.Size = rapid.Int64().Draw(t, "size")
		}
		return
	}
	switch x.Kind() {
	case reflect.Struct:
		fillStruct(t, v, x)
	case reflect.Slice:
		if n := rapid.IntRange(0, 3).Draw(t, "length"); n > 0 {
			x.Set(reflect.MakeSlice(x.Type(), n, n))
			for i := range n {
				fill(t, v, x.Index(i))
			}
		}
	case reflect.String:
		x.SetString(drawString(t))
	case reflect.Bool:
		x.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		x.SetUint(rapid.Uint64().Draw(t, "number") >> (64 - x.Type().Bits()))
	case reflect.Int32, reflect.Int64:
		x.SetInt(rapid.Int64().Draw(t, "number") >> (64 - x.Type().Bits()))
	default:
		t.Fatalf("a message has a field of type %v", x.Type())
	}
}

// drawString draws a string whose count takes one, two or four bytes.
func drawString(t *rapid.T) string {
	s := rapid.StringN(0, 5, -1).Draw(t, "string")
	if s == "" {
		return ""
	}
	return s + string(make([]byte, rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 0, 300, 70000}).Draw(t, "zeros")))
}

func fillStruct(t *rapid.T, v Version, x reflect.Value) {
	value := x.FieldByName("Value")
	if code := x.FieldByName("Code"); value.IsValid() && code.IsValid() {
		if fill(t, v, code); code.IsZero() {
			fill(t, v, value)
		}
		return
	}
	if present := x.FieldByName("Present"); present.IsValid() {
		if fill(t, v, present); present.Bool() {
			fill(t, v, value)
		}
		return
	}
	for _, i := range fieldsOf(v, x.Type()) {
		fill(t, v, x.Field(i))
	}
}

func fillDescriptor(t *rapid.T, v Version, d *Descriptor) {
	d.ID = rapid.Uint64().Draw(t, "id")
	d.Status = ReplicaStatus(rapid.Int32().Draw(t, "status"))
	switch d.Kind = rapid.SampledFrom(kindsOf(v)).Draw(t, "kind"); d.Kind {
	case TypeMemory, TypeNoF:
		fill(t, v, reflect.ValueOf(&d.Buffer).Elem())
	case TypeDisk:
		d.Disk = new(DiskFile)
		fill(t, v, reflect.ValueOf(d.Disk).Elem())
	case TypeLocalDisk:
		d.LocalDisk = new(LocalDisk)
		fill(t, v, reflect.ValueOf(d.LocalDisk).Elem())
	case TypeDFS:
		d.DFS = new(DFSFile)
		fill(t, v, reflect.ValueOf(d.DFS).Elem())
	}
}
