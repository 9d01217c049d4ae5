package attack

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/security"
)

// greeting is a ClientHello.
type greeting struct {
	version     uint16   // of the record and of the message
	versions    []uint16 // of the extension that TLS 1.3 has for them, none for no extension
	suites      []uint16
	compression []byte
	name        string // SNI
	protocol    string // ALPN
	padding     int
}

func modern(suites ...uint16) greeting {
	return greeting{version: tls.VersionTLS12, versions: []uint16{tls.VersionTLS13}, suites: suites, compression: []byte{0}}
}

// sized puts a length before b, of n bytes.
func sized(n int, b []byte) []byte {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(b)))
	return append(length[8-n:], b...)
}

func extension(kind uint16, body []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, kind), sized(2, body)...)
}

func words(list []uint16) (out []byte) {
	for _, w := range list {
		out = binary.BigEndian.AppendUint16(out, w)
	}
	return out
}

// message returns the ClientHello as a message of the handshake.
func (g greeting) message(t *testing.T) []byte {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	require.NoError(t, err)
	var random [64]byte
	_, _ = rand.Read(random[:])
	body := binary.BigEndian.AppendUint16(nil, g.version)
	body = append(body, random[:32]...)
	body = append(body, sized(1, random[32:])...)
	body = append(body, sized(2, words(g.suites))...)
	body = append(body, sized(1, g.compression)...)
	var more []byte
	if g.name != "" {
		more = append(more, extension(0, sized(2, append([]byte{0}, sized(2, []byte(g.name))...)))...)
	}
	more = append(more, extension(10, sized(2, words([]uint16{uint16(tls.X25519)})))...)
	more = append(more, extension(13, sized(2, words([]uint16{0x0403, 0x0503, 0x0804, 0x0807})))...)
	if g.protocol != "" {
		more = append(more, extension(16, sized(2, sized(1, []byte(g.protocol))))...)
	}
	if g.padding > 0 {
		more = append(more, extension(21, make([]byte, g.padding))...)
	}
	if len(g.versions) > 0 {
		more = append(more, extension(43, sized(1, words(g.versions)))...)
		share := append(words([]uint16{uint16(tls.X25519)}), sized(2, key.PublicKey().Bytes())...)
		more = append(more, extension(51, sized(2, share))...)
	}
	body = append(body, sized(2, more)...)
	return append([]byte{1}, sized(3, body)...)
}

// records cuts a message into records of at most most bytes.
func (g greeting) records(message []byte, most int) (out []byte) {
	for len(message) > 0 {
		n := min(len(message), most)
		out = append(out, 0x16)
		out = binary.BigEndian.AppendUint16(out, min(g.version, 0x0301))
		out = append(out, sized(2, message[:n])...)
		message = message[n:]
	}
	return out
}

// answer is what a server says first.
type answer struct {
	hello       bool
	version     uint16
	suite       uint16
	compression byte
	alert       byte // 0 for none
	err         error
}

func (a answer) String() string {
	if a.hello {
		return fmt.Sprintf("ServerHello, version %#x, suite %#x, compression %d", a.version, a.suite, a.compression)
	}
	return fmt.Sprintf("alert %d, %v", a.alert, a.err)
}

// greet sends bytes and reads the first record.
func greet(t *testing.T, addr string, send []byte) (a answer) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(15 * time.Second))
	if _, a.err = conn.Write(send); a.err != nil {
		return a
	}
	var head [5]byte
	if _, a.err = io.ReadFull(conn, head[:]); a.err != nil {
		return a
	}
	body := make([]byte, binary.BigEndian.Uint16(head[3:]))
	if _, a.err = io.ReadFull(conn, body); a.err != nil {
		return a
	}
	switch {
	case head[0] == 0x15 && len(body) == 2:
		a.alert = body[1]
	case head[0] == 0x16 && len(body) > 39 && body[0] == 2:
		rest := body[39+int(body[38]):]
		if len(rest) < 3 {
			return a
		}
		a.hello, a.version, a.suite, a.compression = true, binary.BigEndian.Uint16(body[4:]), binary.BigEndian.Uint16(rest), rest[2]
		if bytes.Contains(rest, []byte{0, 43, 0, 2, 3, 4}) {
			a.version = tls.VersionTLS13
		}
	}
	return a
}

// sessions counts what a server gives to resume a session.
type sessions struct{ n atomic.Int32 }

func (s *sessions) Get(string) (*tls.ClientSessionState, bool) { return nil, false }
func (s *sessions) Put(string, *tls.ClientSessionState)        { s.n.Add(1) }

var suites13 = []uint16{tls.TLS_AES_128_GCM_SHA256, tls.TLS_AES_256_GCM_SHA384, tls.TLS_CHACHA20_POLY1305_SHA256}

// handshakes checks what TLS the doors speak.
func (c *campaign) handshakes(t *testing.T) {
	t.Helper()
	old := append([]uint16{0x009c, 0x002f, 0xc02b, 0xc02f, 0xc013}, suites13...)
	refused := map[string]greeting{
		"SSL 3.0":                               {version: 0x0300, suites: old, compression: []byte{0}},
		"TLS 1.0":                               {version: tls.VersionTLS10, suites: old, compression: []byte{0}},
		"TLS 1.1":                               {version: tls.VersionTLS11, suites: old, compression: []byte{0}},
		"TLS 1.2":                               {version: tls.VersionTLS12, suites: old, compression: []byte{0}},
		"TLS 1.3 with compression":              {version: tls.VersionTLS12, versions: []uint16{tls.VersionTLS13}, suites: suites13, compression: []byte{1, 0}},
		"TLS 1.3 with suites of 64-bit tags":    modern(0x1305),
		"TLS 1.3 with suites of TLS 1.2":        modern(0xc02b, 0xc02f),
		"TLS 1.3 without a version of its list": {version: tls.VersionTLS12, versions: []uint16{0x0305, 0x7f17}, suites: suites13, compression: []byte{0}},
	}
	for _, d := range c.doors {
		at := func(what string) string { return what + " at " + d.name + " of " + d.proc.Name }
		for name, g := range refused {
			a := greet(t, d.addr, g.records(g.message(t), 1<<14))
			c.note(at("a ClientHello of "+name), !a.hello && !timedOut(a.err), "%s", a)
		}
		for _, suite := range suites13 {
			g := modern(suite)
			a := greet(t, d.addr, g.records(g.message(t), 1<<14))
			c.note(at("served as it should: TLS 1.3 with "+tls.CipherSuiteName(suite)), a.hello && a.suite == suite && a.version == tls.VersionTLS13 && a.compression == 0, "%s", a)
		}
		g := modern(suites13...)
		g.name, g.padding = "another.example", 1000
		whole := g.message(t)
		for _, most := range []int{1, 100} {
			a := greet(t, d.addr, g.records(whole, most))
			c.note(at(fmt.Sprintf("a ClientHello in records of %d bytes, with another name", most)), (a.hello || a.alert != 0) && !timedOut(a.err), "%s", a)
		}
		g.padding = 60_000
		a := greet(t, d.addr, g.records(g.message(t), 1<<14))
		c.note(at("a ClientHello of 60 kB"), (a.hello || a.alert != 0) && !timedOut(a.err), "%s", a)
		g.padding, g.protocol = 0, "bogus"
		a = greet(t, d.addr, g.records(g.message(t), 1<<14))
		c.note(at("a ClientHello for another protocol (ALPN)"), a.alert == 120 || d.name == "data" && a.hello, "%s", a)
		c.resumption(t, at, d)
	}
}

// resumption checks that a server gives nothing to resume a session by, without which there is no 0-RTT either.
func (c *campaign) resumption(t *testing.T, at func(string) string, d door) {
	t.Helper()
	role := security.RoleOperator
	if d.name == "data" || d.name == "handshake" {
		role = security.RoleClient
	}
	own := c.section(role)
	var kept sessions
	cfg := c.with(t, own.Cert, own.Key)
	cfg.ClientSessionCache = &kept
	for _, says := range c.protocols(t, d.name) {
		_, _ = speak(t, d.addr, cfg, []byte(says[0]), max(len(says[1]), 1))
		break
	}
	c.note(at("served as it should: no session ticket"), kept.n.Load() == 0, "%d tickets", kept.n.Load())
}
