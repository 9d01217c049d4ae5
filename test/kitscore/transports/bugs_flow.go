package transports

import (
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// odd selects some operations.
func odd(o transport.Op) bool { n := len(o.Local); return n > 1001 && n < 50_000 && n%8 == 5 }

// flowBugs are bugs of Submit and Reap.
func flowBugs() map[string]bug {
	once := one("exactly one completion")
	return map[string]bug{
		"completion-lost":  {"the completion of some operations never comes", once, repeats(0)},
		"completion-twice": {"the completion of some operations comes twice", once, repeats(2)},
		"accepted-more": {"Submit counts an operation as accepted that it dropped", one("exactly one completion", "content at random"), paths(func(p *bentPath) {
			p.submit = func(ops []transport.Op) (int, error) {
				if len(ops) < 3 {
					return p.inner.Submit(ops)
				}
				n, err := p.inner.Submit(ops[:len(ops)-1])
				if n == len(ops)-1 && err == nil {
					n++
				}
				return n, err
			}
		})},
		"accepted-fewer": {"Submit leaves an accepted operation out of its count", one("exactly one completion", "content at random"), paths(func(p *bentPath) {
			p.submit = func(ops []transport.Op) (int, error) {
				n, err := p.inner.Submit(ops)
				if n == len(ops) && n >= 3 && err == nil {
					n--
				}
				return n, err
			}
		})},
		"accepted-beyond": {"Submit counts more operations than it was given", once, paths(func(p *bentPath) {
			p.submit = func(ops []transport.Op) (int, error) {
				n, err := p.inner.Submit(ops)
				if n == len(ops) && n > 0 {
					n++
				}
				return n, err
			}
		})},
		"submit-hangs": {"Submit of an operation of 4097 bytes never returns", one("content at many sizes"), paths(func(p *bentPath) {
			p.submit = func(ops []transport.Op) (int, error) {
				for _, o := range ops {
					if len(o.Local) == 4097 {
						select {}
					}
				}
				return p.inner.Submit(ops)
			}
		})},
		"reap-ignores-context": {"Reap does not end with its context", one("reap waits for its context"), paths(func(p *bentPath) {
			p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
				if len(dst) == 0 {
					return p.inner.Reap(ctx, dst)
				}
				return p.inner.Reap(context.WithoutCancel(ctx), dst)
			}
		})},
		"reap-returns-nothing": {"Reap returns no completion and no error after 20 ms", one("reap waits for its context"), paths(func(p *bentPath) {
			p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
				short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
				defer cancel()
				n, err := p.inner.Reap(short, dst)
				if short.Err() != nil && n == 0 {
					err = nil
				}
				return n, err
			}
		})},
		"no-back-pressure": {"Submit accepts any number of operations that are not reaped", one("back-pressure"), bottomless},
		"full-is-error": {"a full path returns an error instead of a short count", one("back-pressure"), paths(func(p *bentPath) {
			p.submit = func(ops []transport.Op) (int, error) {
				n, err := p.inner.Submit(ops)
				if err == nil && n < len(ops) {
					err = errs.WithClass(errs.ClassTransientPath, "", errs.New(errs.TransferFail, "", "the path is full"))
				}
				return n, err
			}
		})},
		"nothing-fails": {"an operation of zero length fails", one("zero length"), paths(func(p *bentPath) {
			empty := map[uint64]bool{}
			var mu sync.Mutex
			p.submit = func(ops []transport.Op) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				for _, o := range ops {
					empty[o.ID] = len(o.Local) == 0
				}
				return p.inner.Submit(ops)
			}
			p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
				n, err := p.inner.Reap(ctx, dst)
				mu.Lock()
				defer mu.Unlock()
				for i, c := range dst[:n] {
					if empty[c.ID] {
						dst[i] = transport.Completion{ID: c.ID, Status: transport.Failed, Err: errs.WithClass(errs.ClassTransientPeer, "", errs.New(errs.TransferFail, "", "nothing to do"))}
					}
				}
				return n, err
			}
		})},
	}
}

// repeats returns a bug that makes the completions of some operations come n times.
func repeats(n int) func(*bent) {
	return paths(func(p *bentPath) {
		var mu sync.Mutex
		bad := map[uint64]bool{}
		var again []transport.Completion
		p.submit = func(ops []transport.Op) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			got, err := p.inner.Submit(ops)
			for _, o := range ops[:got] {
				bad[o.ID] = odd(o)
			}
			return got, err
		}
		p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
			for {
				mu.Lock()
				if k := copy(dst, again); k > 0 {
					again = again[k:]
					mu.Unlock()
					return k, nil
				}
				mu.Unlock()
				got, err := p.inner.Reap(ctx, dst)
				mu.Lock()
				kept := dst[:0]
				for _, c := range dst[:got] {
					if !bad[c.ID] {
						kept = append(kept, c)
						continue
					}
					if n == 2 {
						kept, again = append(kept, c), append(again, c)
					}
				}
				mu.Unlock()
				if len(kept) > 0 || err != nil || len(dst) == 0 {
					return len(kept), err
				}
			}
		}
	})
}

// bottomless keeps what a full path does not accept, without a limit.
func bottomless(b *bent) {
	paths(func(p *bentPath) {
		var mu sync.Mutex
		var queue []transport.Op
		p.submit = func(ops []transport.Op) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			n := 0
			var err error
			if len(queue) == 0 {
				n, err = p.inner.Submit(ops)
			}
			if err != nil {
				return n, err
			}
			queue = append(queue, ops[n:]...)
			return len(ops), nil
		}
		p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
			n, err := p.inner.Reap(ctx, dst)
			mu.Lock()
			defer mu.Unlock()
			k, _ := p.inner.Submit(queue)
			queue = queue[k:]
			return n, err
		}
	})(b)
}
