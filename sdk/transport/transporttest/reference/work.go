package reference

import (
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// run carries out queued operations until the path is closed, and fails the rest.
func (p *path) run() {
	defer close(p.ended)
	for {
		select {
		case <-p.closing:
			for o, ok := p.next(); ok; o, ok = p.next() {
				p.finish(o, 0, lost("the path was closed"))
			}
			return
		case <-p.work:
		}
		for o, ok := p.next(); ok; o, ok = p.next() {
			sum, err := p.carryOut(o)
			p.finish(o, sum, err)
			if p.isClosed() {
				break
			}
		}
	}
}

func (p *path) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func (p *path) next() (transport.Op, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		return transport.Op{}, false
	}
	o := p.queue[0]
	p.queue = p.queue[1:]
	return o, true
}

func (p *path) finish(o transport.Op, sum uint32, err error) {
	c := transport.Completion{ID: o.ID, Status: transport.OK, Err: err, Sum: sum, Summed: o.Sum && err == nil, Grained: o.Grains.Sums != nil && err == nil}
	if err != nil {
		c.Status = transport.Failed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = append(p.done, finished{c, len(o.Local)})
	close(p.news)
	p.news = make(chan struct{})
}

// carryOut carries out one operation and returns the checksum if the operation requests one. It
// does not touch the memory after it returned.
func (p *path) carryOut(o transport.Op) (sum uint32, err error) {
	if len(o.Local) == 0 {
		return 0, nil
	}
	if !o.Deadline.After(time.Now()) {
		return 0, lost("the deadline has passed")
	}
	peer, there := p.from.net.find(p.name)
	if there && peer == nil { // This peer never answers.
		timer := time.NewTimer(time.Until(o.Deadline))
		defer timer.Stop()
		select {
		case <-timer.C:
			return 0, lost("the peer did not answer before the deadline")
		case <-p.closing:
			return 0, lost("the path was closed")
		}
	}
	p.mu.Lock()
	k := p.imported[o.Remote-1]
	p.mu.Unlock()
	if !there {
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
	dst, src := o.Local, r.Mem[o.Offset:][:len(o.Local)]
	if o.Kind == transport.Write {
		if g := r.Guard; g != nil {
			w := g.BeginWrite(o.Offset, uint64(len(o.Local)), copying{})
			if w == 0 {
				return 0, permanent("the guard of the region refuses the write")
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
