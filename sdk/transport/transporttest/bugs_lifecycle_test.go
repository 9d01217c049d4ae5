package transporttest_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// lifecycleBugs are bugs of manifests, of start and stop, and of access to regions and peers.
func lifecycleBugs() map[string]bug {
	none := func(*bent) {}
	var rereg sync.Map // from older keys of a region to its latest key
	return map[string]bug{
		"a setting in the manifest only": {bend: none, manifest: func(m *plugin.Manifest) { m.ConfigSchema = []byte(`{"properties":{"gone":{"type":"integer"}}}`) }, finds: []string{"manifest and program"}},
		"a manifest of another kind":     {bend: none, manifest: func(m *plugin.Manifest) { m.API = []uint{99} }, finds: []string{"manifest"}},
		"it does not start": {bend: func(b *bent) {
			b.start = func(context.Context) error { return errors.New("the frobnicator is missing") }
		}, finds: []string{"start and stop"}, says: "the frobnicator is missing"},
		"the manifest claims rails that do not exist": {bend: none, manifest: func(m *plugin.Manifest) { m.Capabilities = append(m.Capabilities, transport.CapRails) },
			finds: []string{"capabilities are true", "content over each rail", "a rail that does not exist"}},
		"the fourth stop is an error": {bend: func(b *bent) {
			var stops atomic.Int32
			b.stop = func(ctx context.Context) error {
				if stops.Add(1) > 3 {
					return errors.New("it does not run any more")
				}
				return b.Transport.Stop(ctx)
			}
		}, finds: []string{"stop twice and at once"}},
		"a stopped transport's paths accept": {bend: func(b *bent) {
			var stopped atomic.Bool
			b.stop = func(ctx context.Context) error { stopped.Store(true); return b.Transport.Stop(ctx) }
			paths(func(p *bentPath) {
				p.submit = func(ops []transport.Op) (int, error) {
					if stopped.Load() {
						return len(ops), nil
					}
					return p.Path.Submit(ops)
				}
			})(b)
		}, finds: []string{"stop ends paths"}},
		"a stopped transport's paths do not end": {bend: func(b *bent) {
			var stopped atomic.Bool
			b.stop = func(ctx context.Context) error { stopped.Store(true); return b.Transport.Stop(ctx) }
			paths(func(p *bentPath) {
				var closed atomic.Bool
				p.close = func(ctx context.Context) error { closed.Store(true); return p.Path.Close(ctx) }
				p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
					n, err := p.Path.Reap(ctx, dst)
					if stopped.Load() && !closed.Load() && errors.Is(err, transport.ErrPathClosed) {
						return n, forever()
					}
					return n, err
				}
			})(b)
		}, finds: []string{"stop ends paths"}},
		"it does not dial itself": {bend: func(b *bent) {
			b.dial = func(ctx context.Context, e transport.Endpoint) (transport.Path, error) {
				if e.Incarnation == b.Transport.Endpoint().Incarnation {
					return nil, errs.New(errs.InvalidParams, "", "that is this transport")
				}
				return b.Transport.Dial(ctx, e)
			}
		}, finds: []string{"a transport reaches itself", "stop twice and at once"}},
		"a key lives on in the next registration": {bend: func(b *bent) {
			var mu sync.Mutex
			all := map[transport.RegionID][]string{}
			b.register = func(ctx context.Context, r transport.Region) (transport.Key, error) {
				k, err := b.Transport.Register(ctx, r)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					for _, old := range all[r.ID] {
						rereg.Store(old, k)
					}
					all[r.ID] = append(all[r.ID], string(k))
				}
				return k, err
			}
			paths(func(p *bentPath) {
				p.imports = func(ctx context.Context, k transport.Key) (transport.RemoteID, error) {
					if latest, ok := rereg.Load(string(k)); ok {
						k, _ = latest.(transport.Key)
					}
					return p.Path.Import(ctx, k)
				}
			})(b)
		}, finds: []string{"register again after deregister"}},
		"an ended registration can be ended again": {bend: func(b *bent) {
			b.deregister = func(ctx context.Context, id transport.RegionID) error {
				err := b.Transport.Deregister(ctx, id)
				if b.Transport.Endpoint().Incarnation != 0 && id == 1 {
					return nil
				}
				return err
			}
		}, finds: []string{"deregister while peers read", "nothing works outside start and stop"}},
		"an ended registration reads as before": {bend: completes(func(c *transport.Completion) {
			if c.ID == 1 && errs.ClassOf(c.Err) == errs.ClassTransientPeer && c.Err != nil {
				*c = transport.Completion{ID: c.ID, Status: transport.OK}
			}
		}), finds: []string{"deregister while peers read", "register again after deregister", "a forged key"}},
		"an abandoned deregister ends reads only": endsReadsOnly(),
		"a malformed key opens memory": {bend: paths(func(p *bentPath) {
			wrong := map[transport.RemoteID]bool{}
			p.imports = func(ctx context.Context, k transport.Key) (transport.RemoteID, error) {
				id, err := p.Path.Import(ctx, k)
				return id, err
			}
			p.submit = func(ops []transport.Op) (int, error) {
				for _, o := range ops { // Only one check has buffers of this size in regions 100 and up.
					if o.ID == 1 && len(o.Local) == 256 {
						wrong[o.Remote] = true
						fillNoise(o.Local)
					}
				}
				return p.Path.Submit(ops)
			}
			p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
				n, err := p.Path.Reap(ctx, dst)
				for i := range dst[:n] {
					if len(wrong) > 0 && dst[i].Status != transport.OK {
						dst[i] = transport.Completion{ID: dst[i].ID, Status: transport.OK}
					}
				}
				return n, err
			}
		}), finds: []string{"a forged key", "register again after deregister", "a restarted peer", "a peer that went and one that came"}},
		"deadlines do not hold for a frozen peer": {bend: frozenWaits, finds: []string{"a frozen peer"}, says: "deadline exceeded"},
		"close waits for a frozen peer": {bend: paths(func(p *bentPath) {
			var large atomic.Bool
			p.submit = func(ops []transport.Op) (int, error) {
				for _, o := range ops {
					large.CompareAndSwap(false, len(o.Local) == 4<<20)
				}
				return p.Path.Submit(ops)
			}
			p.close = func(ctx context.Context) error {
				if err := p.Path.Close(ctx); err != nil || !large.CompareAndSwap(true, false) {
					return err
				}
				return forever()
			}
		}), finds: []string{"a frozen peer"}, says: "deadline exceeded"},
	}
}

// forever is the error of a call that would never end by itself. The contexts of the suite have
// deadlines; forever returns at once so that tests need not wait for them.
func forever() error { return context.DeadlineExceeded }

func fillNoise(b []byte) {
	for i := range b {
		b[i] = 0x5a
	}
}

// endsReadsOnly leaves a region open for writes if the context of Deregister has ended.
func endsReadsOnly() bug {
	var givenUp atomic.Bool
	return bug{bend: func(b *bent) {
		b.deregister = func(ctx context.Context, id transport.RegionID) error {
			if ctx.Err() != nil {
				givenUp.Store(true)
				return ctx.Err()
			}
			return b.Transport.Deregister(ctx, id)
		}
		completes(func(c *transport.Completion) {
			if givenUp.Load() && c.ID == 2 {
				*c = transport.Completion{ID: 2, Status: transport.Failed, Err: errs.WithClass(errs.ClassTransientPeer, "", errs.New(errs.TransferFail, "", "stale"))}
				givenUp.Store(false)
			}
		})(b)
	}, finds: []string{"deregister with an ended context"}}
}

// frozenWaits ignores the deadlines of operations to peers that do not answer.
func frozenWaits(b *bent) {
	paths(func(p *bentPath) {
		var waits atomic.Bool
		p.submit = func(ops []transport.Op) (int, error) {
			for _, o := range ops {
				waits.CompareAndSwap(false, len(o.Local) == 2<<20 && !o.Deadline.IsZero())
			}
			return p.Path.Submit(ops)
		}
		p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
			if waits.Load() {
				return 0, forever()
			}
			return p.Path.Reap(ctx, dst)
		}
	})(b)
}
