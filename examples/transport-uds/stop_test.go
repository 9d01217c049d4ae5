package uds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// stopping begins to stop a node and closes the channel once the node has stopped.
func stopping(t *testing.T, n *node) <-chan struct{} {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	eventually(t, "the node stops", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.state == stateStopped
	})
	return stopped
}

// farewell requires that the connection ends with a refusal that names no request, and nothing
// else.
func farewell(t *testing.T, c net.Conn) {
	t.Helper()
	if h := answered(t, c); h.Type != frameRefused || h.Reason != reasonStopping || h.ID != 0 {
		t.Fatalf("%+v", h)
	}
	if n, err := io.Copy(io.Discard, c); n != 0 || err != nil {
		t.Fatalf("%d bytes more, %v", n, err)
	}
}

// TestStopTellsPeers: every connected peer hears that the node stops, even one that never sent a
// hello. The node first finishes the requests that have begun.
func TestStopTellsPeers(t *testing.T) {
	mem := make([]byte, 64)
	n, key := served(t, mem, transport.AccessRemote)
	k, err := decodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	idle, begun := stranger(t, n), stranger(t, n)
	mute, err := net.Dial("unix", n.self.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	var b [headerSize]byte
	(&header{Type: frameWrite, ID: 9, Region: k.Region, Token: k.Token, Length: 1}).put(b[:])
	if _, err := begun.Write(b[:1]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two wait and one is being read", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		waiting := 0
		for g := range n.guests {
			g.mu.Lock()
			if g.waiting {
				waiting++
			}
			g.mu.Unlock()
		}
		return waiting == 2 && len(n.guests) == 3
	})
	stopped := stopping(t, n)
	farewell(t, idle)
	farewell(t, mute)
	select {
	case <-stopped:
		t.Fatal("Stop did not wait for the request that had begun")
	default:
	}
	if _, err := begun.Write(append(b[1:], 7)); err != nil {
		t.Fatal(err)
	}
	if h := answered(t, begun); h.Type != frameDone || h.ID != 9 || mem[0] != 7 {
		t.Fatalf("%+v, %d in place", h, mem[0])
	}
	farewell(t, begun)
	<-stopped
}

// early is a connection that calls happens right after a byte has arrived.
type early struct {
	net.Conn
	happens func()
}

func (e early) Read(b []byte) (int, error) {
	n, err := e.Conn.Read(b[:1])
	e.happens()
	return n, err
}

// TestStopMeetsARequest: a request has begun if its first byte has arrived when the node stops.
func TestStopMeetsARequest(t *testing.T) {
	n := started(t)
	theirs, ours := net.Pipe()
	defer theirs.Close()
	g := &guest{n: n}
	g.conn = early{ours, g.leave}
	go func() { _, _ = writeFrame(theirs, &header{Type: frameRead, ID: 3}, nil) }()
	var h header
	if err := g.await(&h, time.Time{}); err != nil || h.ID != 3 {
		t.Fatal(h, err)
	}
	if err := g.await(&h, time.Time{}); !errors.Is(err, errLeaving) {
		t.Fatal(err)
	}
}

// TestLatecomer: a peer whose connection is accepted after the node has stopped is told so.
func TestLatecomer(t *testing.T) {
	n := started(t)
	<-stopping(t, n)
	theirs, ours := net.Pipe()
	defer theirs.Close()
	go n.serve(ours)
	farewell(t, theirs)
}

// TestNoHello: a peer that accepts a connection and closes it without a hello counts as stopped or
// dead.
func TestNoHello(t *testing.T) {
	n, key := served(t, make([]byte, 64), transport.AccessRemote)
	e, _ := decodeEndpoint(n.Endpoint().Blob)
	e.Socket = filepath.Join(private(t), socketName(e.Incarnation))
	ln, err := net.Listen("unix", e.Socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	defer func() { _ = ln.Close(); <-done }()
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	p, id := dialled(t, started(t), transport.Endpoint{Blob: e.encode(), Incarnation: e.Incarnation}, key)
	c := one(t, p, transport.Op{ID: 1, Kind: transport.Write, Local: make([]byte, 64), Remote: id})
	if c.Status != transport.Failed || c.Class() != errs.ClassTransientPeer {
		t.Fatalf("%+v", c)
	}
}

// TestGoodbyeOfAPeer: operations that the peer has not answered fail when it says that it stops. If
// it disconnects without a word, a Write is indeterminate.
func TestGoodbyeOfAPeer(t *testing.T) {
	for says, want := range map[bool]transport.Status{true: transport.Failed, false: transport.Quarantined} {
		for _, size := range []int{64, maxSlice} { // The larger is more than sockets hold.
			t.Run(fmt.Sprint(says, size), func(t *testing.T) {
				n, key := served(t, make([]byte, maxSlice), transport.AccessRemote)
				e, _ := decodeEndpoint(n.Endpoint().Blob)
				e.Socket = filepath.Join(private(t), socketName(e.Incarnation))
				ln, err := net.Listen("unix", e.Socket)
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan struct{})
				defer func() { _ = ln.Close(); <-done }()
				go func() {
					defer close(done)
					c, err := ln.Accept()
					if err != nil {
						return
					}
					defer c.Close()
					var h header
					if readHeader(c, &h) != nil {
						return
					}
					_, _ = writeFrame(c, &h, nil) // The hello.
					if readHeader(c, &h) == nil && says {
						_, _ = writeFrame(c, &header{Type: frameRefused, Reason: reasonStopping}, nil)
					} // It closes with input unread.
				}()
				p, id := dialled(t, started(t, func(c *Config) { c.SliceBytes = maxSlice }), transport.Endpoint{Blob: e.encode(), Incarnation: e.Incarnation}, key)
				c := one(t, p, transport.Op{ID: 1, Kind: transport.Write, Local: make([]byte, size), Remote: id})
				if c.Status != want {
					t.Fatalf("%+v", c)
				}
				if says && c.Class() != errs.ClassTransientPeer {
					t.Fatal(c.Err)
				}
			})
		}
	}
}

// TestStopUnderWrites: a node that stops leaves no Write of its peers indeterminate, whatever
// request it is serving and whatever they have sent.
func TestStopUnderWrites(t *testing.T) {
	const size, depth = 64 << 10, 64
	for round := range 20 {
		n, key := served(t, make([]byte, size*depth), transport.AccessRemote)
		p, id := dialled(t, started(t, func(c *Config) { c.SliceBytes = 16 << 10 }), n.Endpoint(), key)
		served := make(chan struct{}) // Closed after a few Writes.
		ended := make(chan error)
		go func() {
			buf, out := make([]byte, size*depth), make([]transport.Completion, depth)
			free := make([]uint64, depth) // No two Writes in flight use the same memory.
			for i := range free {
				free[i] = uint64(i)
			}
			var wrong error
			for done, failed := 0, false; !failed || len(free) < depth; {
				for ; len(free) > 0 && !failed; free = free[1:] {
					at := free[0] * size
					_, _ = p.Submit([]transport.Op{{ID: free[0], Kind: transport.Write, Local: buf[at:][:size], Remote: id, Offset: at}})
				}
				got, err := p.Reap(context.Background(), out)
				if err != nil {
					wrong = err
					break
				}
				for _, c := range out[:got] {
					if done++; done == 17*round+1 {
						close(served)
					}
					free, failed = append(free, c.ID), failed || c.Status != transport.OK
					if c.Status == transport.Quarantined || c.Status == transport.Failed && c.Class() != errs.ClassTransientPeer {
						wrong = fmt.Errorf("status %d: %w", c.Status, c.Err)
					}
				}
			}
			ended <- wrong
		}()
		<-served
		if err := n.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}
