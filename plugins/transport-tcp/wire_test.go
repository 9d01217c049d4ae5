package tcp

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

func encoded(h frame.Header) []byte {
	b := make([]byte, frame.Size)
	h.Put(b)
	return b
}

// TestHeaderLayout pins the bytes: peers of other builds depend on them.
func TestHeaderLayout(t *testing.T) {
	h := frame.Header{
		Type: frame.Write, Follow: 3, Reason: frame.ReasonRange, Class: errs.ClassPermanent, ID: 0x0102030405060708, Region: 0x1112131415161718,
		Token: token([]byte("0123456789abcdef")), Offset: 0x2122232425262728, Length: 0x31323334, Sum: 0x41424344, Code: -600,
	}
	require.Equal(t, "4d9e01020300030408070605040302011817161514131211"+hex.EncodeToString([]byte("0123456789abcdef"))+
		"28272625242322213433323144434241a8fdffff", hex.EncodeToString(encoded(h))[:120])
}

func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := frame.Header{
			Type: frame.Type(rapid.IntRange(1, 6).Draw(t, "type")), Follow: uint16(rapid.IntRange(0, frame.MaxBatch-1).Draw(t, "follow")),
			Reason: frame.Reason(rapid.Byte().Draw(t, "reason")), Class: errs.Class(rapid.Byte().Draw(t, "class")),
			ID: rapid.Uint64().Draw(t, "id"), Region: rapid.Uint64().Draw(t, "region"), Offset: rapid.Uint64().Draw(t, "offset"),
			Length: rapid.Uint32().Draw(t, "length"), Sum: rapid.Uint32().Draw(t, "sum"), Code: errs.Code(rapid.Int32().Draw(t, "code")),
		}
		copy(h.Token[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "token"))
		b := encoded(h)
		var got frame.Header
		require.NoError(t, got.Decode(b))
		require.Equal(t, h, got)
		bit := rapid.IntRange(0, frame.Size*8-1).Draw(t, "bit")
		b[bit/8] ^= 1 << (bit % 8)
		require.ErrorIs(t, got.Decode(b), frame.ErrFrame, "bit %d", bit)
	})
}

func TestBatch(t *testing.T) {
	batch := make([]frame.Header, 5)
	for i := range batch {
		batch[i] = frame.Header{Type: frame.Read, ID: uint64(i)}
	}
	b := frame.PutBatch(make([]byte, 5*frame.Size), batch)
	got := make([]frame.Header, 5)
	require.NoError(t, got[0].Decode(b))
	require.EqualValues(t, 4, got[0].Follow)
	require.NoError(t, frame.DecodeBatch(b[frame.Size:], got))
	require.Equal(t, batch, got)
	swapped := append(bytes.Clone(b[2*frame.Size:3*frame.Size]), b[frame.Size:2*frame.Size]...)
	require.ErrorIs(t, frame.DecodeBatch(append(swapped, b[3*frame.Size:]...), got), frame.ErrFrame)
	require.ErrorIs(t, frame.DecodeBatch(b[frame.Size:2*frame.Size], got), frame.ErrFrame)
}

func TestRefusalOfAnUnknownVersionIsTame(t *testing.T) {
	for _, h := range []frame.Header{{Type: frame.Error, Reason: 250, Class: 99, Code: 5}, {Type: frame.GoAway, Reason: frame.NumReasons}} {
		err := h.Refusal("op")
		require.Equal(t, errs.ClassUnknown, errs.ClassOf(err))
		require.Equal(t, errs.TransferFail, errs.CodeOf(err))
	}
	for r := frame.ReasonNone + 1; r < frame.NumReasons; r++ {
		h := r.Answer(frame.Error, 1)
		require.NotEqual(t, errs.ClassUnknown, errs.ClassOf(h.Refusal("op")), r.Info().Label)
		require.Less(t, int32(h.Code), int32(0))
		require.False(t, strings.HasPrefix(r.Info().Label, "reason-"))
	}
}

func TestHello(t *testing.T) {
	h := frame.Hello{Low: 1, High: 3, Reason: frame.ReasonBusy, Incarnation: 77, Session: frame.Session([]byte("sessionsessionse")), MaxFrame: 1 << 20, Idle: 90 * time.Second, Flags: frame.FlagChecksum}
	b := make([]byte, frame.Size)
	h.Put(b)
	var got frame.Hello
	require.NoError(t, got.Decode(b))
	require.Equal(t, h, got)
	for i := range b {
		bent := bytes.Clone(b)
		bent[i] ^= 0x10
		require.Error(t, got.Decode(bent), "byte %d", i)
	}
	for name, change := range map[string]func(*frame.Hello){
		"versions": func(h *frame.Hello) { h.Low = 4 }, "no frames": func(h *frame.Hello) { h.MaxFrame = 0 }, "huge frames": func(h *frame.Hello) { h.MaxFrame = frame.MaxSlice + 1 },
	} {
		bad := h
		change(&bad)
		bad.Put(b)
		require.ErrorIs(t, got.Decode(b), frame.ErrFrame, name)
	}
}

// TestHelloIsNoLength: the first eight bytes, read as the length that begins the 24-byte
// header of the reference implementation, exceed any memory.
func TestHelloIsNoLength(t *testing.T) {
	b := make([]byte, frame.Size)
	(&frame.Hello{}).Put(b)
	require.Greater(t, le64(b), uint64(1)<<60)
	require.Greater(t, b[0], byte(0x7f), "no text protocol begins so")
}

func le64(b []byte) (v uint64) {
	for i := range 8 {
		v |= uint64(b[i]) << (8 * i)
	}
	return v
}

func TestEndpointBlob(t *testing.T) {
	e := frame.Endpoint{Incarnation: 5, Addrs: []string{"10.0.0.1:80", "[fe80::1%eth0]:65535", "host.example:1"}}
	got, err := frame.DecodeEndpoint(e.Encode())
	require.NoError(t, err)
	require.Equal(t, e, got)
	long := frame.Endpoint{Addrs: []string{strings.Repeat("h", 256) + ":1"}}
	many := frame.Endpoint{Addrs: make([]string, transportkit.MaxAddresses+1)}
	for i := range many.Addrs {
		many.Addrs[i] = "h:1"
	}
	for name, bad := range map[string][]byte{
		"nil": nil, "short": []byte("TEP1"), "no address": frame.Endpoint{}.Encode(), "long host": long.Encode(), "too many": many.Encode(),
		"no port": frame.Endpoint{Addrs: []string{"host"}}.Encode(), "port 0": frame.Endpoint{Addrs: []string{"host:0"}}.Encode(),
		"bad host": frame.Endpoint{Addrs: []string{"a b:1"}}.Encode(), "cut": e.Encode()[:30], "trailing": append(e.Encode(), 0),
	} {
		_, err := frame.DecodeEndpoint(bad)
		require.ErrorIs(t, err, transportkit.ErrBlob, name)
	}
}

func TestKeyBlob(t *testing.T) {
	k := frame.Key{RegionKey: transportkit.RegionKey{Incarnation: 1, Region: 2, Token: token([]byte("tokentokentokent")), Length: 1 << 40, Access: transport.AccessRemoteWrite}}
	got, err := frame.DecodeKey(k.Encode())
	require.NoError(t, err)
	require.Equal(t, k, got)
	for name, change := range map[string]func(*frame.Key){
		"region 0": func(k *frame.Key) { k.Region = 0 }, "empty": func(k *frame.Key) { k.Length = 0 }, "access": func(k *frame.Key) { k.Access = 8 },
	} {
		bad := k
		change(&bad)
		_, err := frame.DecodeKey(bad.Encode())
		require.ErrorIs(t, err, transportkit.ErrBlob, name)
	}
}
