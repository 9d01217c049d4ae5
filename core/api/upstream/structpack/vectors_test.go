package structpack

import (
	"encoding/hex"
	"math"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// checkVector encodes a value to the bytes that upstream's library produces, and decodes them.
func checkVector[T any](want string, literal bool, value T, walk func(*T, *Coder)) func(*testing.T) {
	return func(t *testing.T) {
		want, err := hex.DecodeString(strings.ReplaceAll(want, " ", ""))
		require.NoError(t, err)
		s := Describe(0, walk)
		got, err := Append([]byte("before"), &s, literal, &value, walk)
		require.NoError(t, err)
		require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(got[len("before"):]))
		m, err := Open(want)
		require.NoError(t, err)
		require.Equal(t, s.Hash, m.Hash)
		if literal {
			require.Equal(t, s.Literal, string(m.Literal))
		} else {
			require.Nil(t, m.Literal)
		}
		var decoded T
		require.NoError(t, Decode(m, 0, &decoded, walk))
		require.Equal(t, value, decoded)
		m.Payload = append(m.Payload, "more"...)
		require.NoError(t, Decode(m, 0, &decoded, walk), "bytes after the value are ignored")
		for n := range len(want) {
			if m, err := Open(want[:n]); err == nil {
				require.Error(t, Decode(m, 0, &decoded, walk), "cut after %d bytes", n)
			}
		}
	}
}

type (
	counted struct {
		key   string
		value int32
	}
	optional struct {
		present bool
		value   uint64
	}
	refusal struct {
		code uint16
		text string
	}
	result struct {
		code  errs.Code
		value int32
	}
	either struct {
		text   string
		number int32
		index  int
	}
)

func (e *counted) walk(c *Coder) { c.String(&e.key); c.Int32(&e.value) }

func (o *optional) walk(c *Coder) { Optional(c, &o.present, &o.value, u64) }

func (r *refusal) walk(c *Coder) { c.Begin(); c.Uint16(&r.code); c.String(&r.text); c.End() }

func (r *result) walk(c *Coder) {
	Expected(c, &r.code, &r.value, func(v *int32, c *Coder) { c.Int32(v) })
}

func (e *counted) walkArguments(c *Coder) { c.Begin(); c.Int32(&e.value); c.String(&e.key); c.End() }

func (e *either) walk(c *Coder) {
	Variant(c, e, e.index, 2, func(e *either, c *Coder, index int) {
		if c.Decoding() {
			e.index = index
		}
		if index == 0 {
			c.String(&e.text)
		} else {
			c.Int32(&e.number)
		}
	})
}

func walkMap(v *[]counted, c *Coder)    { Map(c, v, (*counted).walk) }
func walkStrings(v *[]string, c *Coder) { c.Strings(v) }
func walkUUID(v *model.UUID, c *Coder)  { c.UUID(v) }
func walkBool(v *bool, c *Coder)        { c.Bool(v) }
func walkInt32(v *int32, c *Coder)      { c.Int32(v) }
func walkUint32s(v *[]uint32, c *Coder) { Vector(c, v, func(v *uint32, c *Coder) { c.Uint32(v) }) }
func walkVoid(v *result, c *Coder) {
	Expected(c, &v.code, &v.value, func(_ *int32, c *Coder) { c.Void() })
}

func TestVectors(t *testing.T) {
	for name, check := range map[string]func(*testing.T){
		"i32":              checkVector("0840a555 feffffff", false, -2, walkInt32),
		"u64":              checkVector("7a7e7fec 0807060504030201", false, 0x0102030405060708, u64),
		"bool":             checkVector("d8ffc813 01", false, true, walkBool),
		"string":           checkVector("76facf9d 02 6162", false, "ab", str),
		"strings":          checkVector("1ae1868a 02 0161 026263", false, []string{"a", "bc"}, walkStrings),
		"u32s":             checkVector("0c4cdbff 02 01000000 02000000", false, []uint32{1, 2}, walkUint32s),
		"map":              checkVector("66e64e4d 01 016b 05000000", false, []counted{{"k", 5}}, walkMap),
		"none":             checkVector("1a698158 00", false, optional{}, (*optional).walk),
		"some":             checkVector("1a698158 01 0500000000000000", false, optional{true, 5}, (*optional).walk),
		"variant":          checkVector("dcd4d743 01 07000000", false, either{number: 7, index: 1}, (*either).walk),
		"pair":             checkVector("e0836d3c 0100000000000000 0200000000000000", false, model.UUID{Hi: 1, Lo: 2}, walkUUID),
		"arguments":        checkVector("e6fda885 01000000 017a", false, counted{"z", 1}, (*counted).walkArguments),
		"expected":         checkVector("a8e95198 01 05000000", false, result{value: 5}, (*result).walk),
		"void":             checkVector("cc6828af 01", false, result{}, walkVoid),
		"error":            checkVector("cc6828af 00 3ffdffff", false, result{code: -705}, walkVoid),
		"255 bytes":        checkVector("76facf9d ff"+strings.Repeat("78", 255), false, strings.Repeat("x", 255), str),
		"256 bytes":        checkVector("77facf9d 08 0001"+strings.Repeat("78", 256), false, strings.Repeat("x", 256), str),
		"65536 bytes":      checkVector("77facf9d 10 00000100"+strings.Repeat("78", 65536), false, strings.Repeat("x", 65536), str),
		"300 and 1 byte":   checkVector("1be1868a 08 0200 2c01"+strings.Repeat("78", 300)+"0100 79", false, []string{strings.Repeat("x", 300), "y"}, walkStrings),
		"refusal":          checkVector("4ce62b37 2c01 01 78", false, refusal{300, "x"}, (*refusal).walk),
		"literal, empty":   checkVector("77facf9d 04 800c00 00", true, "", str),
		"literal, width 2": checkVector("77facf9d 0c 800c00 0001"+strings.Repeat("78", 256), true, strings.Repeat("x", 256), str),
		"literal, pair":    checkVector("e1836d3c 04 fd04048989ff00 0100000000000000 0200000000000000", true, model.UUID{Hi: 1, Lo: 2}, walkUUID),
		"literal, void":    checkVector("cd6828af 04 87fa0100 01", true, result{}, walkVoid),
		"literal, bool":    checkVector("d9ffc813 04 0b00 01", true, true, walkBool),
		"literal, error":   checkVector("77facf9d 04 800c00 0f 696e76616c69642072706320617267", true, "invalid rpc arg", str),
	} {
		t.Run(name, check)
	}
}

// TestHead has heads that upstream's library writes for other types or not at all, but reads.
func TestHead(t *testing.T) {
	for _, head := range []string{
		"77facf9d 00 02", "77facf9d 08 0200", "77facf9d 10 02000000", "77facf9d 18 0200000000000000",
		"77facf9d 01 0000 02", "77facf9d 02 00000000 02", "77facf9d 0f 0000000000000000 800c00 0200",
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(head, " ", ""))
		require.NoError(t, err)
		m, err := Open(append(b, "ab"...))
		require.NoError(t, err, head)
		var s string
		require.NoError(t, Decode(m, 0, &s, str), head)
		require.Equal(t, "ab", s, head)
	}
}

// TestHostileCounts has counts for which the bytes are missing. They are refused before memory is
// allocated for them, so that the test would not end otherwise.
func TestHostileCounts(t *testing.T) {
	most := Message{Payload: []byte(strings.Repeat("\xff", 8)), width: 8}
	var text string
	require.ErrorContains(t, Decode(most, 0, &text, str), "18446744073709551615")
	var list []string
	require.ErrorContains(t, Decode(most, 0, &list, walkStrings), "18446744073709551615")

	// 4000 elements of 16 bytes in 4000 bytes, then as many elements as the bytes allow.
	var ids []model.UUID
	many := Message{Payload: append([]byte{0xa0, 0x0f}, make([]byte, 4000)...), width: 2}
	walkIDs := func(v *[]model.UUID, c *Coder) { Vector(c, v, walkUUID) }
	require.Less(t, allocated(func() {
		require.ErrorContains(t, Decode(many, 0, &ids, walkIDs), "at least 16 bytes")
	}), uint64(4000*16/2))
	many.Payload[0], many.Payload[1] = 250, 0
	require.NoError(t, Decode(many, 0, &ids, walkIDs))
	require.Len(t, ids, 250)

	empty := Message{Payload: make([]byte, 4+MaxElements+1), width: 4}
	empty.Payload[2] = MaxElements >> 16
	require.Error(t, Decode(empty, 0, &list, walkStrings), "the strings have counts of 4 bytes as well")
	bools := func(v *[]bool, c *Coder) { Vector(c, v, walkBool) }
	var flags []bool
	require.NoError(t, Decode(empty, 0, &flags, bools))
	empty.Payload[0] = 1
	require.ErrorContains(t, Decode(empty, 0, &flags, bools), "more than 1048576 elements")
}

// allocated returns the bytes that f allocates. Other goroutines count as well: it takes the least of
// some runs.
func allocated(f func()) uint64 {
	least := uint64(math.MaxUint64)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

func TestLeast(t *testing.T) {
	type pair struct {
		either   either
		result   result
		optional optional
		list     []string
	}
	m := Coder{mode: measuring}
	(func(p *pair, c *Coder) {
		p.either.walk(c)
		p.result.walk(c)
		p.optional.walk(c)
		c.Strings(&p.list)
	})(new(pair), &m)
	require.Equal(t, 2+5+1+1, m.least, "a variant with an empty string, an expected number, a missing one, an empty list")
	require.Empty(t, m.buf)
	m.least = 0
	Expected(&m, new(errs.Code), new(model.UUID), walkUUID)
	require.Equal(t, 5, m.least, "an error code is shorter than an identifier")
}

func TestWrongValues(t *testing.T) {
	var e either
	require.ErrorContains(t, Decode(Message{Payload: []byte{2, 0, 0, 0, 0}, width: 1}, 0, &e, (*either).walk), "alternative 2 of a value that has 2")
	var r result
	require.ErrorContains(t, Decode(Message{Payload: make([]byte, 5), width: 1}, 0, &r, walkVoid), "error code 0")
}

func TestNotation(t *testing.T) {
	for literal, want := range map[string]string{
		"":             "?",
		"\x04":         "u64",
		"\x04\x04":     "u64?",
		"\x80\x0c":     "string",
		"\x80":         "?",
		"\x84":         "list<?",
		"\x99":         "?",
		"\xfd\xff":     "{}",
		"\xfd\x04":     "{u64 ?",
		"\x87\xfa\x01": "expected<void i32>",
		"\xfd\xfd\x04\x04\x89\x89\xff\x82\x80\x0c\x85\x84\x0b\x86\x01\xfd\x80\x0c\xff\xff\xff": "{{u64 u64} map<string optional<list<bool>>> one of(i32 {string})}",
	} {
		require.Equal(t, want, Notation([]byte(literal)), "%x", literal)
	}
	require.Less(t, len(Notation([]byte(strings.Repeat("\x84", 1000)))), 200)
	require.Less(t, len(Notation([]byte("\xfd"+strings.Repeat("\x04", 1000)+"\xff"))), most+20)
}

// TestOwnStrings: one string shares its memory with the next, or not.
func TestOwnStrings(t *testing.T) {
	adjacent := func(own bool) bool {
		var list []string
		m := Message{Payload: []byte("\x02\x01a\x01b"), width: 1}
		require.NoError(t, Decode(m, 0, &list, func(v *[]string, c *Coder) {
			if own {
				c.OwnStrings()
			}
			c.Strings(v)
		}))
		require.Equal(t, []string{"a", "b"}, list)
		return uintptr(unsafe.Pointer(unsafe.StringData(list[0])))+2 == uintptr(unsafe.Pointer(unsafe.StringData(list[1])))
	}
	require.True(t, adjacent(false))
	require.False(t, adjacent(true))
}
