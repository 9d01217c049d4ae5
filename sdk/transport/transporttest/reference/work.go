package reference

import (
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// start carries out one operation, or makes it wait for a peer that never answers. The caller holds
// p.mu.
func (p *path) start(o *transport.Op) {
	if len(o.Local) == 0 {
		p.finish(o, 0, nil)
		return
	}
	if !o.Deadline.IsZero() && !o.Deadline.After(time.Now()) {
		p.finish(o, 0, lost("the deadline has passed"))
		return
	}
	peer, there := p.from.net.find(p.name)
	if there && peer == nil {
		p.wait(*o)
		return
	}
	sum, err := p.carryOut(o, peer)
	p.finish(o, sum, err)
}

// wait fails an operation at its deadline. The caller holds p.mu.
func (p *path) wait(o transport.Op) {
	limit := ownLimit
	if !o.Deadline.IsZero() {
		limit = time.Until(o.Deadline)
	}
	p.waiting[&o] = time.AfterFunc(limit, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.waiting[&o] != nil {
			delete(p.waiting, &o)
			p.finish(&o, 0, lost("the peer did not answer before the deadline"))
		}
	})
}

// finish delivers a completion, or queues it for Reap. The caller holds p.mu.
func (p *path) finish(o *transport.Op, sum uint32, err error) {
	c := transport.Completion{ID: o.ID, Status: transport.OK, Err: err, Sum: sum, Summed: o.Sum && err == nil, Grained: o.Grains.Sums != nil && err == nil}
	if err != nil {
		c.Status = transport.Failed
	}
	if p.deliver != nil && p.deliver(c) {
		p.bytes -= len(o.Local)
		return
	}
	p.done = append(p.done, finished{c, len(o.Local)})
	p.wake()
}

// carryOut carries out one operation at a peer, nil for one that has stopped, and returns the
// checksum if the operation requests one. The caller holds p.mu.
func (p *path) carryOut(o *transport.Op, peer *node) (sum uint32, err error) {
	k := p.imported[o.Remote-1]
	if peer == nil {
		return 0, errs.WithClass(errs.ClassTransientPeer, "transfer", errs.New(errs.TransferFail, "", "the peer has stopped"))
	}
	r := peer.open(k.incarnation, k.secret)
	if r == nil {
		return 0, stale()
	}
	r.use.RLock()
	defer r.use.RUnlock()
	switch {
	case r.closed:
		return 0, stale()
	case uint64(len(r.Mem)) < o.Offset+uint64(len(o.Local)): // The key does not state the size of the region.
		return 0, permanent("the range reaches past the end of the region")
	case o.Kind == transport.Read && r.Access&transport.AccessRemoteRead == 0:
		return 0, permanent("the region is not open for reading")
	case o.Kind == transport.Write && r.Access&transport.AccessRemoteWrite == 0:
		return 0, permanent("the region is not open for writing")
	}
	if g := r.Grants; g != nil {
		if v := g.Check(o.Grant.Grant(), transport.Subject{}, o.Kind, o.Offset, uint64(len(o.Local))); v != transport.GrantGood {
			return 0, refused(v)
		}
	}
	dst, src := o.Local, r.Mem[o.Offset:][:len(o.Local)]
	if o.Kind == transport.Write {
		if g := r.Guard; g != nil {
			w := g.BeginWrite(o.Offset, uint64(len(o.Local)), copying{})
			if w == 0 {
				return 0, errs.WithClass(errs.ClassPermanent, "transfer", errs.New(errs.InvalidWrite, "", "the guard of the region refuses the write"))
			}
			defer g.EndWrite(w)
		}
		dst, src = src, dst
	}
	copy(dst, src)
	if o.Sum {
		sum = crc32c.Sum(dst)
	}
	if g := o.Grains; g.Sums != nil {
		crc32c.SumGrains(g.Sums, dst, g.Lead, g.Size)
	}
	return sum, nil
}

// refused is the error of what the grants of a region do not allow.
func refused(v transport.Verdict) error {
	code := errs.IllegalClient
	if v == transport.GrantOver {
		code = errs.LeaseExpired
	}
	return errs.WithClass(errs.ClassPermanent, "transfer", errs.New(code, "", "the grants of the region refuse it"))
}

// copying implements transport.Writer. Its writes end soon anyway.
type copying struct{}

func (copying) Cut() {}

func lost(why string) error {
	return errs.WithClass(errs.ClassTransientPath, "transfer", errs.Wrap(errs.TransferFail, "", errors.New(why)))
}

func stale() error {
	return errs.WithClass(errs.ClassTransientPeer, "transfer", errs.New(errs.TransferFail, "", "the key is of a registration that has ended"))
}

func permanent(why string) error {
	return errs.WithClass(errs.ClassPermanent, "transfer", errs.Wrap(errs.TransferFail, "", errors.New(why)))
}
