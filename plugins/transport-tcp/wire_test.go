package tcp

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

func encoded(h header) []byte {
	b := make([]byte, headerSize)
	h.put(b)
	return b
}

// TestHeaderLayout pins the bytes: peers of other builds depend on them.
func TestHeaderLayout(t *testing.T) {
	h := header{
		Type: frameWrite, Follow: 3, Reason: reasonRange, Class: errs.ClassPermanent, ID: 0x0102030405060708, Region: 0x1112131415161718,
		Token: token([]byte("0123456789abcdef")), Offset: 0x2122232425262728, Length: 0x31323334, Sum: 0x41424344, Code: -600,
	}
	require.Equal(t, "4d9e01020300030408070605040302011817161514131211"+hex.EncodeToString([]byte("0123456789abcdef"))+
		"28272625242322213433323144434241a8fdffff", hex.EncodeToString(encoded(h))[:120])
}

func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := header{
			Type: frameType(rapid.IntRange(1, 6).Draw(t, "type")), Follow: uint16(rapid.IntRange(0, maxTrain-1).Draw(t, "follow")),
			Reason: reason(rapid.Byte().Draw(t, "reason")), Class: errs.Class(rapid.Byte().Draw(t, "class")),
			ID: rapid.Uint64().Draw(t, "id"), Region: rapid.Uint64().Draw(t, "region"), Offset: rapid.Uint64().Draw(t, "offset"),
			Length: rapid.Uint32().Draw(t, "length"), Sum: rapid.Uint32().Draw(t, "sum"), Code: errs.Code(rapid.Int32().Draw(t, "code")),
		}
		copy(h.Token[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "token"))
		b := encoded(h)
		var got header
		require.NoError(t, got.decode(b))
		require.Equal(t, h, got)
		bit := rapid.IntRange(0, headerSize*8-1).Draw(t, "bit")
		b[bit/8] ^= 1 << (bit % 8)
		require.ErrorIs(t, got.decode(b), errFrame, "bit %d", bit)
	})
}

func TestTrain(t *testing.T) {
	train := make([]header, 5)
	for i := range train {
		train[i] = header{Type: frameRead, ID: uint64(i)}
	}
	b := putTrain(make([]byte, 5*headerSize), train)
	got := make([]header, 5)
	require.NoError(t, got[0].decode(b))
	require.EqualValues(t, 4, got[0].Follow)
	require.NoError(t, decodeTrain(b[headerSize:], got))
	require.Equal(t, train, got)
	swapped := append(bytes.Clone(b[2*headerSize:3*headerSize]), b[headerSize:2*headerSize]...)
	require.ErrorIs(t, decodeTrain(append(swapped, b[3*headerSize:]...), got), errFrame)
	require.ErrorIs(t, decodeTrain(b[headerSize:2*headerSize], got), errFrame)
}

func TestRefusalOfAnUnknownVersionIsTame(t *testing.T) {
	for _, h := range []header{{Type: frameError, Reason: 250, Class: 99, Code: 5}, {Type: frameGoAway, Reason: numReasons}} {
		err := h.refusal("op")
		require.Equal(t, errs.ClassUnknown, errs.ClassOf(err))
		require.Equal(t, errs.TransferFail, errs.CodeOf(err))
	}
	for r := reasonNone + 1; r < numReasons; r++ {
		h := r.header(frameError, 1)
		require.NotEqual(t, errs.ClassUnknown, errs.ClassOf(h.refusal("op")), r.info().Label)
		require.Less(t, int32(h.Code), int32(0))
		require.False(t, strings.HasPrefix(r.info().Label, "reason-"))
	}
}

func TestHello(t *testing.T) {
	h := hello{Low: 1, High: 3, Reason: reasonBusy, Incarnation: 77, Session: session([]byte("sessionsessionse")), MaxFrame: 1 << 20, Idle: 90 * time.Second, Flags: flagChecksum}
	b := make([]byte, headerSize)
	h.put(b)
	var got hello
	require.NoError(t, got.decode(b))
	require.Equal(t, h, got)
	for i := range b {
		bent := bytes.Clone(b)
		bent[i] ^= 0x10
		require.Error(t, got.decode(bent), "byte %d", i)
	}
	for name, change := range map[string]func(*hello){
		"versions": func(h *hello) { h.Low = 4 }, "no frames": func(h *hello) { h.MaxFrame = 0 }, "huge frames": func(h *hello) { h.MaxFrame = maxSlice + 1 },
	} {
		bad := h
		change(&bad)
		bad.put(b)
		require.ErrorIs(t, got.decode(b), errFrame, name)
	}
}

// TestHelloIsNoLength: the first eight bytes, read as the length that begins the 24-byte
// header of the reference implementation, exceed any memory.
func TestHelloIsNoLength(t *testing.T) {
	b := make([]byte, headerSize)
	(&hello{}).put(b)
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
	e := endpoint{Incarnation: 5, Addrs: []string{"10.0.0.1:80", "[fe80::1%eth0]:65535", "host.example:1"}}
	got, err := decodeEndpoint(e.encode())
	require.NoError(t, err)
	require.Equal(t, e, got)
	long := endpoint{Addrs: []string{strings.Repeat("h", 256) + ":1"}}
	many := endpoint{Addrs: make([]string, transportkit.MaxAddresses+1)}
	for i := range many.Addrs {
		many.Addrs[i] = "h:1"
	}
	for name, bad := range map[string][]byte{
		"nil": nil, "short": []byte("TEP1"), "no address": endpoint{}.encode(), "long host": long.encode(), "too many": many.encode(),
		"no port": endpoint{Addrs: []string{"host"}}.encode(), "port 0": endpoint{Addrs: []string{"host:0"}}.encode(),
		"bad host": endpoint{Addrs: []string{"a b:1"}}.encode(), "cut": e.encode()[:30], "trailing": append(e.encode(), 0),
	} {
		_, err := decodeEndpoint(bad)
		require.ErrorIs(t, err, errBlob, name)
	}
}

func TestKeyBlob(t *testing.T) {
	k := remoteKey{Incarnation: 1, Region: 2, Token: token([]byte("tokentokentokent")), Length: 1 << 40, Access: transport.AccessRemoteWrite}
	got, err := decodeKey(k.encode())
	require.NoError(t, err)
	require.Equal(t, k, got)
	for name, change := range map[string]func(*remoteKey){
		"region 0": func(k *remoteKey) { k.Region = 0 }, "empty": func(k *remoteKey) { k.Length = 0 }, "access": func(k *remoteKey) { k.Access = 8 },
	} {
		bad := k
		change(&bad)
		_, err := decodeKey(bad.encode())
		require.ErrorIs(t, err, errBlob, name)
	}
}
