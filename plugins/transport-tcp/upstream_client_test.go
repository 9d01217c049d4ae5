package tcp

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/upstream"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// against is a path to a scripted peer that claims size bytes.
func against(t testing.TB, version, size int, each func(net.Conn), change ...func(*Config)) (*pair, *scripted) {
	r := newPair(t, size, append([]func(*Config){single}, change...)...)
	s := newScripted(t)
	s.serve(each)
	r.dialUpstream(t, version, s.port())
	return r, s
}

// header reads one request; false at the end of the connection.
func request(c net.Conn) (upstream.Header, bool) {
	var h upstream.Header
	b := make([]byte, upstream.HeaderSize)
	if _, err := io.ReadFull(c, b); err != nil {
		return h, false
	}
	h.Decode(b)
	return h, true
}

// TestUpstreamAnswers: what a peer may say instead of an answer, and what becomes of the
// operation.
func TestUpstreamAnswers(t *testing.T) {
	rejected := upstream.PutStatus(make([]byte, 8), upstream.StatusRejected)
	ok := upstream.PutStatus(make([]byte, 8), upstream.StatusOK)
	for name, x := range map[string]struct {
		version     int
		answer      []byte
		read, write transport.Status
		class       errs.Class
		code        errs.Code
	}{
		"rejected":            {2, rejected, transport.Failed, transport.Failed, errs.ClassTransientPeer, errs.InvalidKey},
		"unknown status":      {2, upstream.PutStatus(make([]byte, 8), 77), transport.Failed, transport.Failed, errs.ClassUnknown, errs.TransferFail},
		"no status":           {2, bytes.Repeat([]byte{9}, 4096), transport.Failed, transport.Quarantined, errs.ClassTransientPath, errs.TransferFail},
		"half a status":       {2, ok[:4], transport.Failed, transport.Quarantined, errs.ClassTransientPath, errs.TransferFail},
		"closed":              {2, nil, transport.Failed, transport.Quarantined, errs.ClassTransientPath, errs.TransferFail},
		"closed in version 1": {1, nil, transport.Failed, transport.Quarantined, errs.ClassTransientPeer, errs.TransferFail},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := against(t, x.version, 4096, func(c net.Conn) {
				h, _ := request(c)
				if h.Op == upstream.Write {
					_, _ = io.CopyN(io.Discard, c, int64(h.Size))
					if x.version == 1 {
						_, _ = request(c)
					}
				}
				_, _ = c.Write(x.answer)
			})
			for kind, want := range map[transport.OpKind]transport.Status{transport.Read: x.read, transport.Write: x.write} {
				got := r.run(t, transport.Op{ID: 1, Kind: kind, Local: make([]byte, 4096), Remote: r.id})[0]
				require.Equal(t, want, got.Status, "%v", got.Err)
				require.Equal(t, x.class, got.Class(), "%v", got.Err)
				require.Equal(t, x.code, errs.CodeOf(got.Err), "%v", got.Err)
			}
		})
	}
}

// TestUpstreamUnasked: bytes without a request end the connection, and the next operation
// has a new one.
func TestUpstreamUnasked(t *testing.T) {
	var first atomic.Bool
	r, s := against(t, 2, 64, func(c net.Conn) {
		for {
			h, more := request(c)
			if !more {
				return
			}
			_, _ = c.Write(append(upstream.PutStatus(make([]byte, 8), 0), make([]byte, h.Size)...))
			if first.CompareAndSwap(false, true) {
				_, _ = c.Write(upstream.PutStatus(make([]byte, 8), 0))
			}
		}
	})
	r.ok(t, r.read(make([]byte, 64)))
	until(t, "the connection ended", func() bool { return r.client.Stats().ConnectionsOut == 0 })
	r.ok(t, r.read(make([]byte, 64)))
	r.ok(t, r.read(make([]byte, 64)))
	require.Equal(t, 2, s.accepted())
}

// TestUpstreamEarlyRejection: a Write that is refused while its payload goes out fails as
// refused, and its memory is free then.
func TestUpstreamEarlyRejection(t *testing.T) {
	r, _ := against(t, 2, 64<<20, func(c net.Conn) {
		_, _ = request(c)
		_, _ = c.Write(upstream.PutStatus(make([]byte, 8), upstream.StatusRejected))
		_, _ = io.CopyN(io.Discard, c, 1<<20)
	})
	buf := make([]byte, 64<<20)
	got := r.run(t, patient(r.write(buf)))[0]
	require.Equal(t, transport.Failed, got.Status)
	require.Equal(t, errs.InvalidKey, errs.CodeOf(got.Err))
	fillWith(buf, 1) // The race detector watches.
}

// TestUpstreamWithdrawn: a large Write for memory that the peer no longer has fails as
// rejected, which is known although the peer closes in the middle of the payload.
func TestUpstreamWithdrawn(t *testing.T) {
	r := upPair(t, 2, 16<<20, func(c *Config) { c.ConnectionsPerPeer = 1 })
	buf := make([]byte, 16<<20)
	r.ok(t, r.write(buf))
	require.NoError(t, r.server.Deregister(context.Background(), 1))
	for range 20 {
		got := r.run(t, patient(r.write(buf)))[0]
		require.Equal(t, transport.Failed, got.Status, "%v", got.Err)
		require.Equal(t, errs.InvalidKey, errs.CodeOf(got.Err), "%v", got.Err)
		require.Equal(t, errs.ClassTransientPeer, got.Class())
	}
}

// TestUpstreamSilentPeer: a status, or the rest of an answer, that never comes costs
// upstream_status_timeout; a peer that publishes version 2 and does not speak it too.
func TestUpstreamSilentPeer(t *testing.T) {
	silent := func(first []byte) func(net.Conn) {
		return func(c net.Conn) {
			_, _ = request(c)
			_, _ = c.Write(first)
			_, _ = io.Copy(io.Discard, c)
		}
	}
	for name, each := range map[string]func(net.Conn){
		"no status":   silent(nil),
		"no payload":  silent(upstream.PutStatus(make([]byte, 8), 0)),
		"not all":     silent(append(upstream.PutStatus(make([]byte, 8), 0), make([]byte, 10)...)),
		"half status": silent(upstream.PutStatus(make([]byte, 8), 0)[:3]),
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := against(t, 2, 4096, each, func(c *Config) { c.UpstreamStatusTimeout = ms(50) })
			got := r.run(t, r.read(make([]byte, 4096)))[0]
			require.Equal(t, transport.Failed, got.Status)
			require.ErrorIs(t, got.Err, errQuiet)
			require.Equal(t, errs.ClassTransientPath, got.Class())
		})
	}
	r, _ := against(t, 2, 4096, silent(nil), func(c *Config) { c.UpstreamStatusTimeout = ms(50) })
	got := r.run(t, r.write(make([]byte, 4096)))[0]
	require.Equal(t, transport.Quarantined, got.Status, "the peer has the bytes and may store them")
	require.ErrorIs(t, got.Err, errQuiet)
}

// TestUpstreamDeadline: an operation ends at its deadline although the peer is silent, and
// the connection does not wait for an answer that is discarded.
func TestUpstreamDeadline(t *testing.T) {
	var asked, answer atomic.Bool
	r, s := against(t, 2, 64, func(c net.Conn) {
		h, _ := request(c)
		asked.Store(true)
		if answer.Load() {
			_, _ = c.Write(append(upstream.PutStatus(make([]byte, 8), 0), make([]byte, h.Size)...))
		}
		_, _ = io.Copy(io.Discard, c)
	}, func(c *Config) { c.UpstreamStatusTimeout = plugin.Duration(limit) })
	r.submit(t, patient(r.read(make([]byte, 64))))
	until(t, "the peer has the request", asked.Load)
	r.expireNow()
	got := r.reap(t)
	require.Equal(t, transport.Failed, got.Status)
	require.True(t, errs.Is(got.Err, errs.RPCTimeout), "%v", got.Err)
	answer.Store(true)
	r.ok(t, patient(r.read(make([]byte, 64))))
	require.Equal(t, 2, s.accepted())
}

// TestUpstreamKilled: a peer that dies in the middle of either direction fails what is under
// way on that connection, and the path connects to the one that takes its place.
func TestUpstreamKilled(t *testing.T) {
	var lives atomic.Int64
	lives.Store(2)
	r, _ := against(t, 2, 1<<20, func(c net.Conn) {
		for {
			h, more := request(c)
			if !more {
				return
			}
			dies := lives.Add(-1) >= 0
			if h.Op == upstream.Write {
				if dies {
					_, _ = io.CopyN(io.Discard, c, int64(h.Size/2))
					return
				}
				_, _ = io.CopyN(io.Discard, c, int64(h.Size))
				_, _ = c.Write(upstream.PutStatus(make([]byte, 8), 0))
				continue
			}
			_, _ = c.Write(upstream.PutStatus(make([]byte, 8), 0))
			if dies {
				_, _ = c.Write(make([]byte, h.Size/2))
				return
			}
			_, _ = c.Write(make([]byte, h.Size))
		}
	})
	buf := make([]byte, 1<<20)
	for _, x := range []struct {
		op   transport.Op
		want transport.Status
	}{{r.read(buf), transport.Failed}, {r.write(buf), transport.Quarantined}} {
		got := r.run(t, patient(x.op))[0]
		require.Equal(t, x.want, got.Status)
		require.Equal(t, errs.ClassTransientPath, got.Class(), "%v", got.Err)
	}
	r.ok(t, patient(r.read(buf)))
	r.ok(t, patient(r.write(buf)))
}
