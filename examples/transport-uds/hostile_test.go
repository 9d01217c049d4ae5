package uds

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// stranger returns a connection to a node after the exchange of hellos.
func stranger(t *testing.T, n *node) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", n.self.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(long))
	ask(t, c, header{Type: frameHello, ID: wireVersion, Region: n.self.Incarnation}, nil)
	if h := answered(t, c); h.Type != frameHello {
		t.Fatalf("%+v", h)
	}
	return c
}

func ask(t *testing.T, c net.Conn, h header, payload []byte) {
	t.Helper()
	if _, err := writeFrame(c, &h, payload); err != nil {
		t.Fatal(err)
	}
}

func answered(t *testing.T, c net.Conn) (h header) {
	t.Helper()
	if err := readHeader(c, &h); err != nil {
		t.Fatal(err)
	}
	return h
}

// closed waits for the end of a connection.
func closed(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection stayed open")
	}
}

// TestRefusals: the node refuses each wrong request with its reason and keeps the connection.
func TestRefusals(t *testing.T) {
	mem := bytes.Repeat([]byte{7}, 4096)
	n, key := served(t, mem, transport.AccessRemoteRead)
	k, err := decodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	c := stranger(t, n)
	good := header{Type: frameRead, Region: k.Region, Token: k.Token, Offset: 96, Length: 4000}
	for i, x := range []struct {
		change func(*header)
		want   reason
	}{
		{func(*header) {}, reasonNone},
		{func(h *header) { h.Region++ }, reasonUnknownRegion},
		{func(h *header) { h.Token[15]++ }, reasonWrongToken},
		{func(h *header) { h.Type = frameWrite }, reasonNoWrite},
		{func(h *header) { h.Offset++ }, reasonRange},
		{func(h *header) { h.Offset = 1<<64 - 1 }, reasonRange},
		{func(h *header) { h.Offset, h.Length = 4097, 0 }, reasonRange},
		{func(h *header) { h.Offset, h.Length = 4096, 0 }, reasonNone},
		{func(*header) {}, reasonNone},
	} {
		h := good
		h.ID = uint64(i) << 40
		x.change(&h)
		var payload []byte
		if h.Type == frameWrite {
			payload = make([]byte, h.Length)
		}
		ask(t, c, h, payload)
		got := answered(t, c)
		if got.ID != h.ID || got.Reason != x.want {
			t.Fatalf("%d: %+v", i, got)
		}
		if got.Type == frameData {
			if b, err := io.ReadAll(io.LimitReader(c, int64(got.Length))); err != nil || got.Length != h.Length || !bytes.Equal(b, mem[:h.Length]) {
				t.Fatalf("%d: %d bytes, %v", i, len(b), err)
			}
		}
	}
}

// TestNonsense: a peer that breaks the protocol loses its connection, and no other peer does.
func TestNonsense(t *testing.T) {
	mem := make([]byte, 64)
	n, key := served(t, mem, transport.AccessRemote)
	p, id := dialled(t, started(t), n.Endpoint(), key)
	read := transport.Op{ID: 1, Kind: transport.Read, Local: make([]byte, 64), Remote: id}
	if c := one(t, p, read); c.Status != transport.OK {
		t.Fatal(c.Err)
	}
	for _, b := range [][]byte{
		bytes.Repeat([]byte{0}, headerSize),
		bytes.Repeat([]byte{0xff}, headerSize),
		append([]byte{byte(frameWrite), 0, 0, 0, 1, 0, 0, 1}, make([]byte, headerSize)...), // One byte too long.
		append([]byte{byte(frameHello), 0, 0, 0}, make([]byte, headerSize-4)...),
		append([]byte{byte(frameDone), 0, 0, 0}, make([]byte, headerSize-4)...),
	} {
		c := stranger(t, n)
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		closed(t, c)
	}
	for _, h := range []header{
		{Type: frameRead, Region: n.self.Incarnation},
		{Type: frameHello, ID: wireVersion + 1, Region: n.self.Incarnation},
		{Type: frameHello, ID: wireVersion, Region: n.self.Incarnation + 1},
	} {
		c, err := net.Dial("unix", n.self.Socket)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(long))
		ask(t, c, h, nil)
		closed(t, c)
		_ = c.Close()
	}
	if c := one(t, p, read); c.Status != transport.OK {
		t.Fatal(c.Err)
	}
}

// TestLyingServer: a wrong answer fails the operation and ends the connection. A Write is
// quarantined, because the peer may have stored it.
func TestLyingServer(t *testing.T) {
	for name, lie := range map[string]func(h *header) (reply header, payload []byte){
		"another request": func(h *header) (header, []byte) { return header{Type: frameDone, ID: h.ID + 1}, nil },
		"the wrong type":  func(h *header) (header, []byte) { return header{Type: frameHello, ID: h.ID}, nil },
		"too much": func(h *header) (header, []byte) {
			return header{Type: frameData, ID: h.ID, Length: h.Length + 1}, make([]byte, h.Length+1)
		},
		"done instead of data": func(h *header) (header, []byte) {
			if h.Type == frameRead {
				return header{Type: frameDone, ID: h.ID}, nil
			}
			return header{Type: frameData, ID: h.ID, Length: h.Length}, make([]byte, h.Length)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, key := served(t, make([]byte, 64), transport.AccessRemote)
			e, _ := decodeEndpoint(n.Endpoint().Blob)
			e.Socket = filepath.Join(private(t), socketName(e.Incarnation))
			ln, err := net.Listen("unix", e.Socket)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			go func() {
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					var h header
					if readHeader(c, &h) == nil {
						_, _ = writeFrame(c, &h, nil) // The hello.
					}
					if readHeader(c, &h) == nil {
						if h.Type == frameWrite {
							_, _ = io.CopyN(io.Discard, c, int64(h.Length))
						}
						reply, payload := lie(&h)
						_, _ = writeFrame(c, &reply, payload)
						_, _ = io.Copy(io.Discard, c)
					}
					_ = c.Close()
				}
			}()
			p, id := dialled(t, started(t), transport.Endpoint{Blob: e.encode(), Incarnation: e.Incarnation}, key)
			for kind, want := range map[transport.OpKind]transport.Status{transport.Read: transport.Failed, transport.Write: transport.Quarantined} {
				c := one(t, p, transport.Op{ID: 1, Kind: kind, Local: make([]byte, 64), Remote: id})
				if c.Status != want || c.Class() != errs.ClassTransientPath || !errors.Is(c.Err, errFrame) {
					t.Errorf("kind %d: %+v", kind, c)
				}
			}
			_ = p.Close(context.Background())
		})
	}
}

// TestDeregisterCutsAStuckPeer: a peer that began a Write and does not send the rest cannot delay
// Deregister for longer than the grace period. The node stores no byte after Deregister returned.
func TestDeregisterCutsAStuckPeer(t *testing.T) {
	mem := make([]byte, 4096)
	n, key := served(t, mem, transport.AccessRemote, func(c *Config) { c.StallTimeout = plugin.Duration(24 * time.Hour) })
	k, _ := decodeKey(key)
	c := stranger(t, n)
	ask(t, c, header{Type: frameWrite, Region: k.Region, Token: k.Token, Length: 4096}, []byte{1})
	eventually(t, "the request is in flight", func() bool { return n.regions.Get(1).Held() == 1 })
	if err := n.Deregister(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	closed(t, c)
	if err := n.Deregister(t.Context(), 1); !errs.Is(err, errs.InvalidParams) {
		t.Fatal(err)
	}
}

// TestTooManyConnections: the path makes do with the connections that the peer accepted.
func TestTooManyConnections(t *testing.T) {
	mem := make([]byte, 1<<20)
	n, key := served(t, mem, transport.AccessRemote, func(c *Config) { c.MaxConnections = 2 })
	p, id := dialled(t, started(t, func(c *Config) { c.ConnectionsPerPeer = 8 }), n.Endpoint(), key)
	if c := one(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: make([]byte, 10), Remote: id}); c.Status != transport.OK {
		t.Fatal(c.Err)
	}
	for round := range uint64(20) {
		ops := make([]transport.Op, 32)
		for i := range ops {
			ops[i] = transport.Op{ID: round<<8 | uint64(i), Kind: transport.Read, Local: make([]byte, 32<<10), Remote: id}
		}
		submit(t, p, ops...)
		for _, c := range reap(t, p, len(ops)) {
			if c.Status != transport.OK {
				t.Fatal(c.Err)
			}
		}
	}
}

// TestBusy: a connection above the limit receives the reason of the refusal.
func TestBusy(t *testing.T) {
	n := started(t, func(c *Config) { c.MaxConnections = 1 })
	stranger(t, n)
	c, err := net.Dial("unix", n.self.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask(t, c, header{Type: frameHello, ID: wireVersion, Region: n.self.Incarnation}, nil)
	if h := answered(t, c); h.Type != frameRefused || h.Reason != reasonBusy {
		t.Fatalf("%+v", h)
	}
}

// TestWithdrawnRegion: once Deregister begins, peers can no longer reach the region.
func TestWithdrawnRegion(t *testing.T) {
	n, key := served(t, make([]byte, 64), transport.AccessRemote)
	k, _ := decodeKey(key)
	busy := &guest{n: n, conn: stranger(t, n)}
	r, _, why := busy.acquire(&header{Type: frameRead, Region: k.Region, Token: k.Token, Length: 1})
	if why != reasonNone {
		t.Fatal(why)
	}
	over := make(chan error, 1)
	go func() { over <- n.regions.Remove(context.Background(), "deregister", 1, long) }()
	c := stranger(t, n)
	eventually(t, "the node refuses the request", func() bool {
		ask(t, c, header{Type: frameRead, Region: k.Region, Token: k.Token}, nil)
		return answered(t, c).Reason == reasonDraining
	})
	r.Release(busy)
	if err := <-over; err != nil {
		t.Fatal(err)
	}
}

// TestCloseInterrupts: if the peer is silent, Close ends attempts to connect and exchanges long
// before any limit. The deadline of an operation does too, and fails only that operation.
func TestCloseInterrupts(t *testing.T) {
	day := plugin.Duration(24 * time.Hour)
	for name, hello := range map[string]bool{"without a hello": false, "without an answer": true} {
		t.Run(name, func(t *testing.T) {
			n, key := served(t, make([]byte, 64), transport.AccessRemote)
			e, _ := decodeEndpoint(n.Endpoint().Blob)
			e.Socket = filepath.Join(private(t), socketName(e.Incarnation))
			ln, err := net.Listen("unix", e.Socket)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			heard := make(chan struct{}, 8)
			go func() {
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					var h header
					if readHeader(c, &h) == nil && hello {
						_, _ = writeFrame(c, &h, nil)
						_ = readHeader(c, &h)
					}
					heard <- struct{}{}
					_, _ = io.Copy(io.Discard, c)
					_ = c.Close()
				}
			}()
			mine := started(t, func(c *Config) { c.OpTimeout, c.DialTimeout, c.StallTimeout = day, day, day })
			p, id := dialled(t, mine, transport.Endpoint{Blob: e.encode(), Incarnation: e.Incarnation}, key)
			read := transport.Op{ID: 1, Kind: transport.Read, Local: make([]byte, 64), Remote: id, Deadline: time.Now().Add(50 * time.Millisecond)}
			if c := one(t, p, read); c.Status != transport.Failed || !errs.Is(c.Err, errs.RPCTimeout) {
				t.Fatalf("%+v", c)
			}
			for len(heard) > 0 {
				<-heard
			}
			read.Deadline = time.Time{}
			submit(t, p, read)
			<-heard // The read is in flight.
			ctx, cancel := context.WithTimeout(t.Context(), long)
			defer cancel()
			if err := p.Close(ctx); err != nil {
				t.Fatal(err)
			}
			if c := reap(t, p, 1)[1]; c.Status != transport.Failed || !errors.Is(c.Err, transport.ErrPathClosed) {
				t.Fatalf("%+v", c)
			}
		})
	}
}

// TestFolder: Start refuses a folder that other users may enter, a link and a file. It does not
// remove a socket that is in use.
func TestFolder(t *testing.T) {
	dir := private(t)
	open, link, file := filepath.Join(dir, "open"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	for _, err := range []error{os.Mkdir(open, 0o700), os.Chmod(open, 0o750), os.Symlink(private(t), link), os.WriteFile(file, nil, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []string{open, link, file} {
		c := DefaultConfig()
		c.Folder = bad
		if err := newNode(*c).Start(t.Context(), quiet{}); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
	same := func(c *Config) { c.Folder = filepath.Join(dir, "new") }
	first := started(t, same)
	started(t, same)
	if _, err := os.Lstat(first.self.Socket); err != nil {
		t.Error(err)
	}
}
