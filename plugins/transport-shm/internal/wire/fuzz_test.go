package wire

import (
	"encoding/binary"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzMessage(f *testing.F) {
	var b [MessageSize]byte
	m := Message{Type: MsgAttach, Handle: 1, Number: 2, Length: 3, Access: 3, Token: Token{5}}
	m.Put(&b)
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := DecodeMessage(in)
		if err != nil {
			return
		}
		var out [MessageSize]byte
		m.Put(&out)
		require.Equal(t, in, out[:], "a message has one form")
	})
}

func FuzzEndpoint(f *testing.F) {
	e := Endpoint{Host: HostID{Boot: [16]byte{1}, NetNS: 2}, Incarnation: 3, Secret: Token{4}, Socket: "@mooncake"}
	f.Add(e.Encode())
	f.Fuzz(func(t *testing.T, in []byte) {
		if e, err := DecodeEndpoint(in); err == nil {
			require.Equal(t, in, e.Encode())
			_, err := net.ResolveUnixAddr("unixpacket", e.Socket)
			require.NoError(t, err)
		}
	})
}

func FuzzKey(f *testing.F) {
	f.Add([]byte(Key{Incarnation: 1, Region: 2, Length: 3, Access: 1, Token: Token{9}}.Encode()))
	f.Add(binary.LittleEndian.AppendUint64([]byte(keyMark), 1))
	f.Fuzz(func(t *testing.T, in []byte) {
		if k, err := DecodeKey(in); err == nil {
			require.Equal(t, in, []byte(k.Encode()))
		}
	})
}
