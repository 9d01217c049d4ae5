package transporttest_test

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
)

// bug is a broken transport and the checks that must notice.
type bug struct {
	bend     func(*bent)
	finds    []string
	also     []string // checks that may find it, by chance or on the way
	says     string   // words of the log of each check that finds it
	manifest func(*plugin.Manifest)
	wrap     func(*bent) transport.Transport
	options  func() []transporttest.Option
	done     func() // ends what it left behind
}

// contractBugs are those of what the contract says of single calls.
func contractBugs() map[string]bug {
	return map[string]bug{
		"stop before start is an error": {bend: func(b *bent) {
			b.stop = func(ctx context.Context) error {
				if len(b.Transport.Endpoint().Blob) <= len("reference:") {
					return errors.New("it does not run")
				}
				return b.Transport.Stop(ctx)
			}
		}, finds: []string{"stop before start", "nothing works outside start and stop", "contexts that have ended"}},
		"registers before start": {bend: func(b *bent) {
			b.register = func(ctx context.Context, r transport.Region) (transport.Key, error) {
				if b.Transport.Endpoint().Incarnation == 0 {
					return transport.Key("x"), nil
				}
				return b.Transport.Register(ctx, r)
			}
		}, finds: []string{"nothing works outside start and stop"}},
		"the same incarnation forever": {bend: func(b *bent) {
			b.endpoint = func() transport.Endpoint {
				return transport.Endpoint{Blob: b.Transport.Endpoint().Blob, Incarnation: 7}
			}
		}, finds: []string{"incarnations differ"}},
		"an ID in use is registered": {bend: func(b *bent) {
			b.register = func(ctx context.Context, r transport.Region) (transport.Key, error) {
				k, err := b.Transport.Register(ctx, r)
				if r.ID == 7 && k == nil {
					return transport.Key("x"), nil
				}
				return k, err
			}
		}, finds: []string{"register refuses"}},
		"the last byte is left out": {bend: submits(func(o *transport.Op) {
			if len(o.Local) == 4095 {
				o.Local = o.Local[:len(o.Local)-1]
			}
		}), finds: []string{"content at many sizes"}},
		"the first byte of large writes is changed": {bend: submits(func(o *transport.Op) {
			if o.Kind == transport.Write && len(o.Local) > 1<<20 {
				o.Local = o.Local[1:]
			}
		}), finds: []string{"content at many sizes", "one operation larger than everything"}, also: []string{"grants of a region"}},
		"an operation past the end is cut": {bend: submits(func(o *transport.Op) {
			if n := uint64(len(o.Local)); o.Offset == 10_006 && n == 2 {
				o.Local = o.Local[:1]
			}
		}), finds: []string{"regions side by side"}},
		"a read is stored after its completion": {bend: paths(func(p *bentPath) {
			last := map[uint64][]byte{}
			p.submit = func(ops []transport.Op) (int, error) {
				n, err := p.Path.Submit(ops)
				for _, o := range ops[:n] {
					if o.Kind == transport.Read && len(o.Local) == 100 {
						last[o.ID] = o.Local
					}
				}
				return n, err
			}
			p.close = func(ctx context.Context) error {
				for _, b := range last {
					b[0] = 0
				}
				return p.Path.Close(ctx)
			}
		}), finds: []string{"a completion is terminal"}},
		"a bad operation is accepted": {bend: submits(func(o *transport.Op) {
			if o.Kind == 9 {
				o.Kind = transport.Read
			}
		}), finds: []string{"submit refuses"}},
		"noise is a key": {bend: paths(func(p *bentPath) {
			p.imports = func(ctx context.Context, k transport.Key) (transport.RemoteID, error) {
				if len(k) == 100 {
					return 1, nil
				}
				return p.Path.Import(ctx, k)
			}
		}), finds: []string{"import refuses"}},
		"noise is an endpoint": {bend: func(b *bent) {
			b.dial = func(ctx context.Context, e transport.Endpoint) (transport.Path, error) {
				if len(e.Blob) == 200 {
					e = b.Transport.Endpoint()
				}
				return b.Transport.Dial(ctx, e)
			}
		}, finds: []string{"dial refuses"}},
		"every right is given": {bend: func(b *bent) {
			b.register = func(ctx context.Context, r transport.Region) (transport.Key, error) {
				r.Access = transport.AccessRemote
				return b.Transport.Register(ctx, r)
			}
		}, finds: []string{"rights of peers"}},
		"a completion comes twice after close": {bend: paths(func(p *bentPath) {
			closed, again := false, true
			var first []transport.Completion
			p.close = func(ctx context.Context) error { closed = true; return p.Path.Close(ctx) }
			p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
				n, err := p.Path.Reap(ctx, dst)
				if closed && n > 0 && first == nil {
					first = []transport.Completion{dst[0]}
				}
				if closed && n == 0 && first != nil && again {
					again = false
					return copy(dst, first), nil
				}
				return n, err
			}
		}), finds: []string{"reap after close"}},
		"close is no error for submit": {bend: paths(func(p *bentPath) {
			p.submit = func(ops []transport.Op) (int, error) {
				n, err := p.Path.Submit(ops)
				if errors.Is(err, transport.ErrPathClosed) {
					err = errs.WithClass(errs.ClassPermanent, "", errs.New(errs.InvalidParams, "", "it is closed"))
				}
				return n, err
			}
		}), finds: []string{"reap after close"}},
		"what close fails has another class": {bend: completes(func(c *transport.Completion) {
			if c.Err != nil && errs.ClassOf(c.Err) == errs.ClassTransientPath {
				c.Err = errs.WithClass(errs.ClassLocalDevice, "", errs.New(errs.TransferFail, "", "lost"))
			}
		}), finds: []string{"a deadline in the past"}},
		"errors carry no code": {bend: completes(func(c *transport.Completion) {
			if c.Err != nil && errs.ClassOf(c.Err) == errs.ClassPermanent {
				c.Err = errors.New("something went wrong")
			}
		}), finds: []string{"rights of peers"}, also: []string{"a guarded region", "grants of a region"}},
		"a stale key is permanent": {bend: completes(func(c *transport.Completion) {
			if errs.ClassOf(c.Err) == errs.ClassTransientPeer && c.Err != nil {
				c.Err = errs.WithClass(errs.ClassPermanent, "", errs.New(errs.TransferFail, "", "stale"))
			}
		}), finds: []string{"a restarted peer", "a peer that went and one that came", "the peer stops"}},
		"deadlines that passed do not count": {bend: submits(func(o *transport.Op) {
			if !o.Deadline.IsZero() && o.Deadline.Before(time.Now()) {
				o.Deadline = time.Now().Add(time.Minute)
			}
		}), finds: []string{"a deadline in the past"}},
		"a register that was given up stays": {bend: func(b *bent) {
			b.register = func(ctx context.Context, r transport.Region) (transport.Key, error) {
				k, err := b.Transport.Register(context.WithoutCancel(ctx), r)
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				return k, err
			}
		}, finds: []string{"contexts that have ended"}},
	}
}
