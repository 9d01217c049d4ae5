package shm

import (
	"encoding/binary"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzMessage(f *testing.F) {
	var b [messageSize]byte
	m := message{Type: msgAttach, Handle: 1, Number: 2, Length: 3, Access: 3, Token: token{5}}
	m.put(&b)
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := decodeMessage(in)
		if err != nil {
			return
		}
		var out [messageSize]byte
		m.put(&out)
		require.Equal(t, in, out[:], "a message has one form")
	})
}

func FuzzEndpoint(f *testing.F) {
	e := endpoint{Host: hostID{Boot: [16]byte{1}, NetNS: 2}, Incarnation: 3, Secret: token{4}, Socket: "@mooncake"}
	f.Add(e.encode())
	f.Fuzz(func(t *testing.T, in []byte) {
		if e, err := decodeEndpoint(in); err == nil {
			require.Equal(t, in, e.encode())
			_, err := net.ResolveUnixAddr("unixpacket", e.Socket)
			require.NoError(t, err)
		}
	})
}

func FuzzKey(f *testing.F) {
	f.Add([]byte(remoteKey{Incarnation: 1, Region: 2, Length: 3, Access: 1, Token: token{9}}.encode()))
	f.Add(binary.LittleEndian.AppendUint64([]byte(keyMark), 1))
	f.Fuzz(func(t *testing.T, in []byte) {
		if k, err := decodeKey(in); err == nil {
			require.Equal(t, in, []byte(k.encode()))
		}
	})
}
