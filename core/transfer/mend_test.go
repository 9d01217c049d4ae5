package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// fragile is a transport of which a test refuses dials, ends paths, and limits keys.
type fragile struct {
	transport.Transport
	refuse, end atomic.Bool
	keys        int // that a path may hold, 0 for any number
}

func withFragile(to **fragile) option {
	return func(_ *transfer.Config, d *transfer.Deps) {
		*to = &fragile{Transport: d.Carriers[0].Transport}
		d.Carriers[0].Transport = *to
	}
}

type fragilePath struct {
	transport.Path
	t    *fragile
	keys int
}

func (f *fragile) Dial(ctx context.Context, ep transport.Endpoint) (transport.Path, error) {
	if f.refuse.Load() {
		return nil, errs.WithClass(errs.ClassTransientPath, "test", errors.New("no way there"))
	}
	p, err := f.Transport.Dial(ctx, ep)
	return &fragilePath{Path: p, t: f}, err
}

func (p *fragilePath) Submit(ops []transport.Op) (int, error) {
	if p.t.end.CompareAndSwap(true, false) {
		if err := p.Close(context.Background()); err != nil {
			return 0, err
		}
		return 0, errs.WithClass(errs.ClassTransientPath, "test", transport.ErrPathClosed)
	}
	return p.Path.Submit(ops)
}

func (p *fragilePath) Import(ctx context.Context, k transport.Key) (transport.RemoteID, error) {
	if p.keys++; p.t.keys > 0 && p.keys > p.t.keys {
		return 0, errs.New(errs.BufferOverflow, "test", "dial again")
	}
	return p.Path.Import(ctx, k)
}

// TestPreferredTransportComesBack: one that failed is tried again, although the next one
// works, but not with every request.
func TestPreferredTransportComesBack(t *testing.T) {
	for name, fail := range map[string]func(*fragile){
		"dial": func(f *fragile) { f.refuse.Store(true) },
		"path": func(f *fragile) { f.end.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "rdma", "tcp")
				var f *fragile
				var log bytes.Buffer
				a := w.node("a", []string{"rdma", "tcp"}, 0, withFragile(&f), func(_ *transfer.Config, d *transfer.Deps) {
					d.Log = slog.New(slog.NewTextHandler(&log, nil))
				})
				b := w.node("b", []string{"rdma", "tcp"}, 1<<20)
				fail(f)
				for range 100 {
					require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 1)))
					synctest.Wait()
				}
				require.Equal(t, 1, w.asked("b"))
				if name == "dial" {
					require.Contains(t, log.String(), "no way there")
				}
				f.refuse.Store(false)
				time.Sleep(time.Minute)
				for range 100 {
					require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 1)))
					synctest.Wait()
				}
				require.Equal(t, 2, w.asked("b"))
				links := a.Paths()
				require.Equal(t, "rdma", links[0].Transport)
				require.False(t, links[0].Dead)
				require.EqualValues(t, 990, links[0].Rails[0].Bytes, "all but the first one since")
				a.stop(t)
				b.stop(t)
			})
		})
	}
}

// TestPathFullOfKeys: a peer that registers memory again and again fills a path with keys
// that it gave up.
func TestPathFullOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		var f *fragile
		a := w.node("a", []string{"tcp"}, 0, withFragile(&f))
		f.keys = 4
		b := w.node("b", []string{"tcp"}, 4096)
		more := make([]byte, 8192)
		for range 20 {
			id, err := b.Register(t.Context(), transfer.Memory{Bytes: more, FD: -1, Access: transport.AccessRemote})
			require.NoError(t, err)
			require.NoError(t, b.Publish(t.Context()))
			time.Sleep(time.Second)
			r := a.Transfer(t.Context(), []transfer.Request{{Kind: transport.Write, Local: pattern(8192, 5), Peer: "b", Addr: addrOf(more)}})
			require.NoError(t, r[0].Err)
			require.NoError(t, b.Deregister(t.Context(), id))
		}
		a.stop(t)
		b.stop(t)
	})
}

// TestThousandsOfBadKeys: the error stays readable.
func TestThousandsOfBadKeys(t *testing.T) {
	w := newWorld(t, "tcp")
	a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 4096)
	te := &w.entries["b"].Transports[0]
	te.Regions = nil
	for i := range 20_000 {
		te.Regions = append(te.Regions, metadata.RegionKey{Addr: uint64(i+1) << 12, Length: 4096, Key: []byte("bad")})
	}
	err := a.move(transport.Write, b, 0, pattern(10, 2))
	require.ErrorContains(t, err, "and 16381 more")
	require.Less(t, len(err.Error()), 2000)
}
