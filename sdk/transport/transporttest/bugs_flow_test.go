package transporttest_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/faulty"
)

// loses drops the completions of some operations. A Reap that could only wait for dropped completions
// fails at once.
func loses(lose func(transport.Op) bool) func(*bent) {
	return paths(func(p *bentPath) {
		plan := faulty.NewPlan()
		plan.Add(faulty.Rule{Fault: faulty.Lost, Match: lose})
		p.Path = faulty.WrapPath(p.Path, plan)
		var open atomic.Int64 // in flight
		var closed atomic.Bool
		p.submit = func(ops []transport.Op) (int, error) {
			n, err := p.Path.Submit(ops)
			open.Add(int64(n))
			return n, err
		}
		p.close = func(ctx context.Context) error { closed.Store(true); return p.Path.Close(ctx) }
		p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
			if lost := int64(plan.Count(faulty.Lost)); lost > 0 && open.Load() <= lost && !closed.Load() {
				return 0, forever()
			}
			n, err := p.Path.Reap(ctx, dst)
			open.Add(int64(-n))
			return n, err
		}
	})
}

// flowBugs are bugs of Submit, Reap and Close.
func flowBugs() map[string]bug {
	odd := func(o transport.Op) bool { n := len(o.Local); return n > 1001 && n < 50_000 && n%8 == 5 }
	return map[string]bug{
		"stop is called after Poll": extends(func(x *transport.Extras) {
			x.Poll = func(stop func() bool) { time.AfterFunc(time.Millisecond, func() { stop() }) }
		}, "polling for answers", "stop is not called after"),
		"a completion is delivered twice": extends(func(x *transport.Extras) {
			deliver := x.Deliver
			x.Deliver = func(f func(transport.Completion) bool) {
				deliver(func(c transport.Completion) bool {
					taken := f(c)
					if taken {
						f(c)
					}
					return taken
				})
			}
		}, "completions are delivered", "completions of"),
		"a completion is lost": {bend: loses(odd), finds: []string{"exactly one completion"}},
		"a completion comes twice": {
			bend: follows(faulty.Rule{Fault: faulty.Duplicate, Match: odd}), finds: []string{"exactly one completion"},
		},
		"every hundredth completion comes twice": {
			bend:  follows(faulty.Rule{Fault: faulty.Duplicate, Nth: 100}),
			finds: []string{"exactly one completion, many at once", "reap given up loses nothing"}, also: []string{"completions are delivered", "grants of a region"},
			says: "completed twice",
		},
		"a full path is an error": {bend: paths(func(p *bentPath) {
			p.submit = func(ops []transport.Op) (int, error) {
				n, err := p.Path.Submit(ops)
				if err == nil && n < len(ops) {
					err = errs.WithClass(errs.ClassTransientPath, "", errs.New(errs.TransferFail, "", "full"))
				}
				return n, err
			}
		}), finds: []string{"back-pressure", "a path that is never reaped"}, says: "full"},
		"a path takes everything": {bend: paths(func(p *bentPath) {
			var full atomic.Bool
			p.submit = func(ops []transport.Op) (int, error) {
				if full.Load() {
					return len(ops), nil
				}
				n, err := p.Path.Submit(ops)
				if err == nil && n < len(ops) {
					full.Store(true)
					n = len(ops)
				}
				return n, err
			}
		}), finds: []string{"back-pressure"}, says: "must stop accepting"},
		"a full path does not resume": {bend: paths(func(p *bentPath) {
			var full atomic.Bool
			var open atomic.Int64
			p.submit = func(ops []transport.Op) (int, error) {
				if full.Load() {
					return 0, nil
				}
				n, err := p.Path.Submit(ops)
				open.Add(int64(n))
				full.Store(err == nil && n < len(ops))
				return n, err
			}
			p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
				if full.Load() && open.Load() == 0 {
					return 0, forever()
				}
				n, err := p.Path.Reap(ctx, dst)
				open.Add(int64(-n))
				return n, err
			}
		}), finds: []string{"back-pressure"}, says: "deadline exceeded"},
		"a full path stops the others": {bend: func(b *bent) {
			var full atomic.Pointer[bentPath]
			paths(func(p *bentPath) {
				others := func() bool { x := full.Load(); return x != nil && x != p }
				p.submit = func(ops []transport.Op) (int, error) {
					if others() {
						return 0, nil
					}
					n, err := p.Path.Submit(ops)
					if err == nil && n < len(ops) {
						full.Store(p)
					}
					return n, err
				}
				p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
					if others() {
						return 0, forever()
					}
					full.CompareAndSwap(p, nil)
					return p.Path.Reap(ctx, dst)
				}
			})(b)
		}, finds: []string{"a path that is never reaped"}, says: "deadline exceeded"},
		"reap waits with an empty dst": {bend: paths(func(p *bentPath) {
			p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
				if len(dst) == 0 {
					return 0, forever()
				}
				return p.Path.Reap(ctx, dst)
			}
		}), finds: []string{"reap waits for its context"}},
		"an ended wait is no error": {bend: paths(func(p *bentPath) {
			p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
				n, err := p.Path.Reap(ctx, dst)
				if errors.Is(err, context.Canceled) {
					err = nil
				}
				return n, err
			}
		}), finds: []string{"reap waits for its context"}, also: []string{"reap given up loses nothing"}},
		"an ended wait loses completions": {bend: givenUpLoses, finds: []string{"reap given up loses nothing"}},
		"close does not wake": {bend: paths(func(p *bentPath) {
			var used atomic.Bool
			p.submit = func(ops []transport.Op) (int, error) { used.Store(true); return p.Path.Submit(ops) }
			p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
				n, err := p.Path.Reap(ctx, dst)
				if !used.Load() && errors.Is(err, transport.ErrPathClosed) {
					err = forever()
				}
				return n, err
			}
		}), finds: []string{"close wakes reapers"}},
		"close drops unreaped completions": {bend: paths(func(p *bentPath) {
			var closed atomic.Bool
			p.close = func(ctx context.Context) error { closed.Store(true); return p.Path.Close(ctx) }
			p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
				if closed.Load() {
					return 0, transport.ErrPathClosed
				}
				return p.Path.Reap(ctx, dst)
			}
		}), finds: []string{"close fails what is in flight", "reap after close"}},
		"close fails operations for good": {bend: closesPermanently, finds: []string{"close fails what is in flight"}, says: "closed for good"},
	}
}

// givenUpLoses makes a Reap whose context has ended drop its completions.
func givenUpLoses(b *bent) {
	paths(func(p *bentPath) {
		var open atomic.Int64
		var lost atomic.Bool
		p.submit = func(ops []transport.Op) (int, error) {
			n, err := p.Path.Submit(ops)
			open.Add(int64(n))
			return n, err
		}
		p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
			if lost.Load() && open.Load() == 0 {
				return 0, forever()
			}
			n, err := p.Path.Reap(ctx, dst)
			if _, bounded := ctx.Deadline(); !bounded && ctx.Done() != nil && open.Load() > 0 {
				<-ctx.Done() // The caller gives up.
				if n == 0 {  // This completion came too late and is lost as well.
					late, cancel := context.WithTimeout(context.Background(), 30*time.Second)
					defer cancel()
					n, _ = p.Path.Reap(late, dst[:1])
				}
				open.Add(int64(-n))
				lost.Store(true)
				return 0, ctx.Err()
			}
			open.Add(int64(-n))
			return n, err
		}
	})(b)
}

// follows makes the paths follow a plan of one rule.
func follows(r faulty.Rule) func(*bent) {
	return func(b *bent) {
		plan := faulty.NewPlan()
		plan.Add(r)
		b.Transport = faulty.Wrap(b.Transport, plan)
	}
}

// closesPermanently keeps operations of one size in flight until Close, and fails them with the
// wrong class.
func closesPermanently(b *bent) {
	plan := faulty.NewPlan()
	plan.Decide(func(o transport.Op) faulty.Effect {
		held := len(o.Local) == 1024
		return faulty.Effect{Hold: held, Late: held}
	})
	b.Transport = faulty.Wrap(b.Transport, plan)
	completes(func(c *transport.Completion) {
		if c.Err != nil && strings.HasPrefix(c.Err.Error(), "faulty: ") {
			c.Err = errs.WithClass(errs.ClassPermanent, "", errs.New(errs.TransferFail, "", "closed for good"))
		}
	})(b)
}

// extended is a path with extras of its own.
type extended struct {
	transport.Path
	extras transport.Extras
}

// Extras implements transport.Extended.
func (e *extended) Extras() transport.Extras { return e.extras }

// extends changes the extras of each path.
func extends(change func(*transport.Extras), check, says string) bug {
	return bug{bend: func(b *bent) {
		b.dial = func(ctx context.Context, e transport.Endpoint) (transport.Path, error) {
			p, err := b.Transport.Dial(ctx, e)
			if err != nil {
				return nil, err
			}
			x := transport.ExtrasOf(p)
			change(&x)
			return &extended{p, x}, nil
		}
	}, finds: []string{check}, says: says}
}
