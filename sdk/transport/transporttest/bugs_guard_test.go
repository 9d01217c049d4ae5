package transporttest_test

import (
	"context"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// bentGuard is a guard with some of its methods replaced.
type bentGuard struct {
	transport.Guard
	begin func(offset, size uint64, by transport.Writer) transport.WriteID
	end   func(transport.WriteID)
}

func (b *bentGuard) BeginWrite(offset, size uint64, by transport.Writer) transport.WriteID {
	if b.begin != nil {
		return b.begin(offset, size, by)
	}
	return b.Guard.BeginWrite(offset, size, by)
}

func (b *bentGuard) EndWrite(id transport.WriteID) {
	if b.end != nil {
		b.end(id)
		return
	}
	b.Guard.EndWrite(id)
}

// cutter notes that a writer was cut.
type cutter struct {
	transport.Writer
	cut *atomic.Bool
}

func (c cutter) Cut() {
	c.cut.Store(true)
	c.Writer.Cut()
}

// guarding bends the guards of the regions of a transport.
func guarding(bend func(*bentGuard)) func(*bent) {
	return func(b *bent) {
		b.register = func(ctx context.Context, r transport.Region) (transport.Key, error) {
			if r.Guard != nil {
				g := &bentGuard{Guard: r.Guard}
				bend(g)
				r.Guard = g
			}
			return b.Transport.Register(ctx, r)
		}
	}
}

// guardBugs are bugs of transports with CapGuard.
func guardBugs() map[string]bug {
	var refused atomic.Bool // the last write
	return map[string]bug{
		"the guard is not asked": {bend: func(b *bent) {
			b.register = func(ctx context.Context, r transport.Region) (transport.Key, error) {
				r.Guard = nil
				return b.Transport.Register(ctx, r)
			}
		}, finds: []string{"a guarded region"}, also: []string{"a write that the guard cuts"}, says: "each write that began ends once"},
		"the guard is asked about the first byte": {bend: guarding(func(g *bentGuard) {
			g.begin = func(offset, _ uint64, by transport.Writer) transport.WriteID {
				return g.Guard.BeginWrite(offset, 1, by)
			}
		}), finds: []string{"a guarded region"}, says: "must not succeed"},
		"a write ends twice": {bend: guarding(func(g *bentGuard) {
			g.end = func(id transport.WriteID) {
				g.Guard.EndWrite(id)
				g.Guard.EndWrite(id)
			}
		}), finds: []string{"a guarded region"}, also: []string{"a write that the guard cuts"}, says: "each write that began ends once"},
		"what the guard refuses may be tried again": {bend: func(b *bent) {
			guarding(func(g *bentGuard) {
				g.begin = func(offset, size uint64, by transport.Writer) transport.WriteID {
					id := g.Guard.BeginWrite(offset, size, by)
					refused.Store(id == 0)
					return id
				}
			})(b)
			completes(func(c *transport.Completion) {
				if c.Status == transport.Failed && refused.Swap(false) {
					c.Err = errs.WithClass(errs.ClassTransientPath, "transfer", errs.New(errs.TransferFail, "", "try again"))
				}
			})(b)
		}, finds: []string{"a guarded region"}, says: "fail with class permanent"},
		"a write that was cut does not end": {bend: guarding(func(g *bentGuard) {
			cut := new(atomic.Bool)
			g.begin = func(offset, size uint64, by transport.Writer) transport.WriteID {
				return g.Guard.BeginWrite(offset, size, cutter{by, cut})
			}
			g.end = func(id transport.WriteID) {
				if !cut.Load() {
					g.Guard.EndWrite(id)
				}
			}
		}), finds: []string{"a write that the guard cuts"}, says: "each write that began ends once"},
	}
}
