package calls

import (
	"encoding/binary"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/upstream/structpack"
)

// The most memory that decoding takes: for each byte of the message, and besides. The smallest
// element on the wire for its size in memory is a key of NotifyOffloadSuccess, one byte for an
// OffloadTask of 40. Lists of up to 1 KiB are allocated on the word of the sender.
const (
	perByte = 48
	besides = 64 << 10
)

// FuzzDecode decodes any payload as the request or response of any function in any version. Decoding
// does not panic, and allocates in proportion to the payload. A message that it accepts is the same
// after it has been encoded and decoded again.
func FuzzDecode(f *testing.F) {
	golden(f, func(v Version, g *frame) {
		index := slices.IndexFunc(Functions, func(call Function) bool { return call.Name() == g.Fn })
		body, _ := g.body(f)
		if m, err := structpack.Open(body); err == nil && index >= 0 {
			f.Add(uint8(index), uint8(v), !g.isRequest(), uint8(0), m.Payload)
		}
	})
	for i := range Functions {
		for width := range uint8(4) {
			f.Add(uint8(i), uint8(newest), width%2 == 0, width, slices.Repeat([]byte{0xff}, 40))
			f.Add(uint8(i), uint8(oldest), width%2 == 1, width, slices.Repeat([]byte{1, 0}, 200))
		}
	}
	f.Fuzz(func(t *testing.T, function, version uint8, answer bool, width uint8, payload []byte) {
		call := Functions[int(function)%len(Functions)].(untyped)
		versions := call.Versions().list()
		v := versions[int(version)%len(versions)]
		first, second := call.untypedRequest(v), call.untypedRequest(v)
		if answer {
			first, second = call.untypedResponse(v), call.untypedResponse(v)
		}
		body := binary.LittleEndian.AppendUint32(nil, first.schema.Hash|1)
		body = append(append(body, width%4<<3), payload...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := first.decode(body)
		runtime.ReadMemStats(&after)
		require.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, uint64(len(body)*perByte+besides))
		if err != nil {
			return
		}
		again, err := first.append(nil, false)
		require.NoError(t, err)
		require.NoError(t, second.decode(again))
		require.Equal(t, first.value.Interface(), second.value.Interface())
	})
}

// FuzzHead decodes any bytes as the request of any function.
func FuzzHead(f *testing.F) {
	golden(f, func(_ Version, g *frame) {
		if body, id := g.body(f); g.isRequest() {
			f.Add(id, body)
		}
	})
	f.Fuzz(func(t *testing.T, id uint32, body []byte) {
		if Shape(body); Lookup(id) == nil {
			return
		}
		call := Lookup(id).(untyped)
		versions := call.Accepts(body)
		require.Zero(t, versions&^call.Versions())
		if m := call.untypedRequest(max(versions.Newest(), oldest)); versions == 0 {
			require.Error(t, m.decode(body))
		} else if err := m.decode(body); err == nil {
			_, err = m.append(nil, true)
			require.NoError(t, err)
		}
	})
}
