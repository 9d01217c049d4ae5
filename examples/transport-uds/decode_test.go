package uds

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// FuzzFrame: an accepted header keeps the promises of decode, and encodes to the same bytes.
func FuzzFrame(f *testing.F) {
	for _, h := range []header{
		{Type: frameHello, ID: wireVersion, Region: 1 << 63},
		{Type: frameWrite, ID: 7, Region: 1, Offset: 4096, Length: maxSlice, Token: token{1, 2, 3}},
		{Type: frameRefused, ID: 7, Reason: reasonRange},
	} {
		b := make([]byte, headerSize)
		h.put(b)
		f.Add(b)
	}
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	for i := range 4 { // One wrong bit in each of the first bytes.
		b := make([]byte, headerSize)
		(&header{Type: frameRead, Length: 1}).put(b)
		b[i] |= 0x80
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h header
		if h.decode(b) != nil {
			return
		}
		if h.Type == 0 || h.Type >= numFrames || h.Length > maxSlice || (h.Type == frameRefused) != (h.Reason != reasonNone) {
			t.Fatalf("%+v was accepted", h)
		}
		again := make([]byte, headerSize)
		if h.put(again); !bytes.Equal(b, again) {
			t.Fatalf("%x became %x", b, again)
		}
	})
}

// FuzzBlobs: accepted endpoints and keys encode to the same bytes, and an accepted endpoint names a
// socket of this transport.
func FuzzBlobs(f *testing.F) {
	f.Add(endpoint{Machine: machine{1}, Incarnation: 5, Socket: "/run/x/" + socketName(5)}.encode())
	f.Add([]byte((&remoteKey{Incarnation: 5, Region: 1, Length: 10}).encode()))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := decodeEndpoint(b); err == nil {
			if !bytes.Equal(e.encode(), b) || e.Incarnation == 0 || !strings.HasPrefix(e.Socket, "/") ||
				!strings.HasSuffix(e.Socket, "/"+socketName(e.Incarnation)) || strings.Contains(e.Socket, "..") {
				t.Fatalf("%q was accepted as %+v", b, e)
			}
		}
		if k, err := decodeKey(b); err == nil && (!bytes.Equal(k.encode(), b) || k.Incarnation == 0 || k.Region == 0 || k.Length == 0) {
			t.Fatalf("%q was accepted as %+v", b, k)
		}
	})
}

func TestConfigBounds(t *testing.T) {
	if err := plugin.Validate(DefaultConfig()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"folder":               func(c *Config) { c.Folder = "here" },
		"the path of a socket": func(c *Config) { c.Folder = "/" + strings.Repeat("x", maxFolder) },
		"connections_per_peer": func(c *Config) { c.ConnectionsPerPeer = 0 },
		"max_connections":      func(c *Config) { c.MaxConnections = 0 },
		"slice_bytes":          func(c *Config) { c.SliceBytes = maxSlice + 1 },
		"max_inflight_ops":     func(c *Config) { c.MaxInflightOps = 0 },
		"max_inflight_bytes":   func(c *Config) { c.MaxInflightBytes = 1 },
		"op_timeout":           func(c *Config) { c.OpTimeout = 0 },
		"dial_timeout":         func(c *Config) { c.DialTimeout = plugin.Duration(-1) },
		"stall_timeout":        func(c *Config) { c.StallTimeout = 1 << 62 },
	} {
		c := DefaultConfig()
		change(c)
		if err := plugin.Validate(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestForeignEndpoints: Dial refuses an endpoint that does not belong to this machine.
func TestForeignEndpoints(t *testing.T) {
	n := started(t)
	mine := n.Endpoint()
	e, err := decodeEndpoint(mine.Blob)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, other := e, e
	elsewhere.Machine[0]++
	other.Socket = "/run/docker.sock"
	for name, ep := range map[string]transport.Endpoint{
		"another machine":     {Blob: elsewhere.encode(), Incarnation: e.Incarnation},
		"a foreign socket":    {Blob: other.encode(), Incarnation: e.Incarnation},
		"another incarnation": {Blob: mine.Blob, Incarnation: e.Incarnation + 1},
		"nothing":             {Incarnation: e.Incarnation},
	} {
		if p, err := n.Dial(t.Context(), ep); err == nil {
			_ = p.Close(t.Context())
			t.Errorf("%s was dialled", name)
		}
	}
}
