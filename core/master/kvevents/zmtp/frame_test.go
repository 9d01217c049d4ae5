package zmtp

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFramesAsOnTheWire(t *testing.T) {
	require.Equal(t, []byte{1, 0}, AppendFrame(nil, nil, true))
	require.Equal(t, "\x00\x03abc", string(AppendFrame(nil, []byte("abc"), false)))
	require.Equal(t, "\x00\xff", string(AppendFrame(nil, make([]byte, 255), false)[:2]))
	require.Equal(t, "\x03\x00\x00\x00\x00\x00\x00\x01\x00", string(AppendFrame(nil, make([]byte, 256), true)[:9]))
	require.Equal(t, "\x04\x06\x04PONGx", string(appendCommand(nil, "PONG", []byte("x"))))
	require.Equal(t, "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB", string(ready()))
	require.Equal(t, "\xff\x00\x00\x00\x00\x00\x00\x00\x00\x7f\x03\x01NULL"+strings.Repeat("\x00", 48), string(greeting()))
}

func TestGreetingsAndIntroductionsThatAreRefused(t *testing.T) {
	with := func(at int, b ...byte) string {
		g := greeting()
		copy(g[at:], b)
		return string(g)
	}
	for text, why := range map[string]string{
		"":                                  "EOF",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n": "does not speak ZMTP 3",
		with(9, 0x7e):                       "does not speak ZMTP 3",
		"\x01\x00":                          "EOF",
		with(10, 1)[:11]:                    "it speaks ZMTP 1",
		with(12, []byte("CURVE")...):        `mechanism "CURVE"`,
		with(12, []byte("NULLS")...):        `mechanism "NULLS"`,
		with(0)[:40]:                        "unexpected EOF",
	} {
		require.ErrorContains(t, readGreeting(strings.NewReader(text)), why, "%q", text)
	}
	require.NoError(t, readGreeting(strings.NewReader(with(10, 3, 0))), "3.0")
	require.NoError(t, readGreeting(strings.NewReader(with(10, 4, 9))), "what is newer speaks 3.1 with us")

	kind := func(s string) string {
		return string(appendCommand(nil, "READY", appendProperty(nil, "Socket-Type", s)))
	}
	for text, why := range map[string]string{
		"":                       "EOF",
		"\x00\x01a":              "before its READY",
		"\x04\x00":               "no whole name",
		"\x04\x02\x05R":          "no whole name",
		"\x04\x0a\x05ERRORoops":  `refuses: "oops"`,
		"\x04\x06\x05HELLO":      `"HELLO" instead of READY`,
		"\x04\x06\x05READY":      `socket type is ""`,
		kind("PUB"):              `socket type is "PUB"`,
		"\x04\x08\x05READY\x0bS": "middle of a property",
		"\x04\x0d\x05READY\x01a\x00\x00\x00\x05b": "middle of a property",
		"\x05\x00":                             "flags of a frame",
		"\x08\x00":                             "flags of a frame",
		"\x06\x00\x00\x00\x00\x00\x00\x10\x01": "4097 bytes",
		"\x06\xff\xff\xff\xff\xff\xff\xff\xff": "18446744073709551615 bytes",
	} {
		var buf []byte
		require.ErrorContains(t, readReady(strings.NewReader(text), &buf), why, "%q", text)
	}
	for _, text := range []string{kind("SUB"), kind("XSUB"), "\x04\x19\x05READY\x0bsocket-TYPE\x00\x00\x00\x03SUB",
		"\x06\x00\x00\x00\x00\x00\x00\x00\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB"} {
		var buf []byte
		require.NoError(t, readReady(strings.NewReader(text), &buf), "%q", text)
	}
}

// FuzzInbound reads whatever a peer may send to the end and holds no more than it may.
func FuzzInbound(f *testing.F) {
	f.Add(append(greeting(), "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB\x04\x0a\x09SUBSCRIBE\x00\x01\x01\x04\x07\x04PING\x00\x00"...))
	f.Add([]byte("\x06\x00\x00\x00\x00\x00\x00\x10\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bytes.NewReader(data)
		var buf []byte
		if readGreeting(in) == nil && readReady(in, &buf) == nil {
			_ = buf // the peer is in
		}
		in.Reset(data)
		s := &subscriber{pub: New(Options{}), conn: discard{}, change: make(chan struct{}, 1)}
		for {
			before := in.Len()
			fr, err := readFrame(in, &buf)
			if err != nil {
				break
			}
			if len(fr.body) > maxInbound || cap(buf) > maxInbound || in.Len() >= before {
				t.Fatalf("a frame of %d bytes, a buffer of %d", len(fr.body), cap(buf))
			}
			if s.hear(fr) != nil {
				break
			}
		}
	})
}

// discard is a connection that takes everything.
type discard struct{ net.Conn }

func (discard) Write(b []byte) (int, error)      { return len(b), nil }
func (discard) SetWriteDeadline(time.Time) error { return nil }
