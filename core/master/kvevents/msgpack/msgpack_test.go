package msgpack_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/kvevents/msgpack"
)

// The shortest forms, at every border between two of them.
func TestGoldenBytes(t *testing.T) {
	for want, n := range map[string]uint64{
		"00": 0, "7f": 127, "cc80": 128, "ccff": 255, "cd0100": 256, "cdffff": 65535, "ce00010000": 65536, "ceffffffff": math.MaxUint32,
		"cf0000000100000000": 1 << 32, "cf7fffffffffffffff": math.MaxInt64, "cfffffffffffffffff": math.MaxUint64,
	} {
		require.Equal(t, want, fmt.Sprintf("%x", msgpack.AppendUint(nil, n)))
		v, err := msgpack.Decode(msgpack.AppendUint(nil, n))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(n), fmt.Sprint(v))
	}
	for want, n := range map[string]int64{
		"00": 0, "7f": 127, "cc80": 128, "ff": -1, "e0": -32, "d0df": -33, "d080": -128, "d1ff7f": -129, "d18000": -32768, "d2ffff7fff": -32769,
		"d280000000": math.MinInt32, "d3ffffffff7fffffff": math.MinInt32 - 1, "d38000000000000000": math.MinInt64,
	} {
		require.Equal(t, want, fmt.Sprintf("%x", msgpack.AppendInt(nil, n)))
		v, err := msgpack.Decode(msgpack.AppendInt(nil, n))
		require.NoError(t, err)
		require.Equal(t, n, v)
	}
	for n, head := range map[int]string{0: "a0", 31: "bf", 32: "d920", 255: "d9ff", 256: "da0100", 65535: "daffff", 65536: "db00010000"} {
		s := strings.Repeat("s", n)
		got := msgpack.AppendString(nil, s)
		require.Equal(t, head, fmt.Sprintf("%x", got[:len(got)-n]))
		v, err := msgpack.Decode(got)
		require.NoError(t, err)
		require.Equal(t, s, v)
	}
	for n, heads := range map[int][2]string{0: {"90", "80"}, 15: {"9f", "8f"}, 16: {"dc0010", "de0010"}, 65535: {"dcffff", "deffff"}, 65536: {"dd00010000", "df00010000"}} {
		a, m := msgpack.AppendArray(nil, n), msgpack.AppendMap(nil, n)
		require.Equal(t, heads, [2]string{fmt.Sprintf("%x", a), fmt.Sprintf("%x", m)})
		for i := range n {
			a = msgpack.AppendNil(a)
			m = msgpack.AppendNil(msgpack.AppendString(m, fmt.Sprint(i)))
		}
		v, err := msgpack.Decode(a)
		require.NoError(t, err)
		require.Len(t, v, n)
		v, err = msgpack.Decode(m)
		require.NoError(t, err)
		require.Len(t, v, n)
	}
}

func TestMalformed(t *testing.T) {
	for data, why := range map[string]string{
		"":                          "EOF",
		"\xc0\xc0":                  "1 bytes follow",
		"\xc1":                      "type 0xc1",
		"\xc3":                      "type 0xc3",
		"\xcd\x01":                  "EOF",
		"\xa3ab":                    "EOF",
		"\xdb\xff\xff\xff\xffx":     "EOF",
		"\xdd\xff\xff\xff\xff":      "EOF",
		"\xdf\xff\xff\xff\xff\xa1a": "EOF",
		"\x92\x01":                  "EOF",
		"\x81\x01\x02":              "names are different strings",
		"\x82\xa1a\xc0\xa1a\xc0":    "names are different strings",
		strings.Repeat("\x91", 40):  "nested deeper",
	} {
		_, err := msgpack.Decode([]byte(data))
		require.ErrorContains(t, err, why, "%q", data)
	}
}

// FuzzDecode: whatever comes, no panic, and what is read is written again the same way.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x93\xcf\x00\x00\x01\x94\xed\x27\xdc\x00\x91\x81\xa1a\xc0\x00"))
	f.Add([]byte("\xd3\xff\xff\xff\xff\x7f\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := msgpack.Decode(data)
		if err != nil {
			return
		}
		again, err := msgpack.Decode(write(nil, v))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(v) {
			t.Fatalf("%v became %v: %v", v, again, err)
		}
	})
}

func write(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return msgpack.AppendNil(dst)
	case int64:
		return msgpack.AppendInt(dst, v)
	case uint64:
		return msgpack.AppendUint(dst, v)
	case string:
		return msgpack.AppendString(dst, v)
	case []any:
		dst = msgpack.AppendArray(dst, len(v))
		for _, e := range v {
			dst = write(dst, e)
		}
		return dst
	case map[string]any:
		dst = msgpack.AppendMap(dst, len(v))
		for name, e := range v {
			dst = write(msgpack.AppendString(dst, name), e)
		}
		return dst
	}
	panic(fmt.Sprintf("%T", v))
}
