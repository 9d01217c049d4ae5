package shm

import (
	"errors"
	"os"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
	"golang.org/x/sys/unix"
)

// remoteState is where an imported region stands.
type remoteState uint8

const (
	remoteIdle      remoteState = iota // not mapped
	remoteAttaching                    // asked for, or to be asked for once there is a connection
	remoteReady                        // mapped
	remoteLeaving                      // to be unmapped once its copies ended
	remoteGone                         // the peer has withdrawn it, for good
)

// remote is an imported region. path.mu guards it.
type remote struct {
	key     wire.Key
	handle  uint64
	state   remoteState
	mapping []byte // what is mapped, whole pages
	mem     []byte // the region in it
	lead    int    // where in it the region begins
	touched touched
	running int  // chunks that workers copy now
	revoked bool // the peer takes it back: it is gone once it is unmapped
	waiting pathkit.Queue[op]
	// err is why the last attempt to map it failed, until not before; or why it is gone.
	err       error
	notBefore time.Time
}

// attachPause is how long operations on a region that could not be mapped fail at once.
const attachPause = time.Second

// refused is why an operation on a remote fails at once, nil if it does not.
func (p *path) refused(r *remote, kind transport.OpKind, now time.Time) error {
	switch {
	case kind == transport.Read && r.key.Access&transport.AccessRemoteRead == 0:
		return errs.WithClass(errs.ClassPermanent, p.Name(), errs.New(errs.InvalidRead, "", "the region does not allow peers to read"))
	case kind == transport.Write && r.key.Access&transport.AccessRemoteWrite == 0:
		return errs.WithClass(errs.ClassPermanent, p.Name(), errs.New(errs.InvalidWrite, "", "the region does not allow peers to write"))
	case r.state == remoteReady:
		return nil
	case r.state == remoteGone || r.state == remoteLeaving || now.Before(r.notBefore):
		return r.err
	case p.conn != nil:
		return p.conn.lost
	case now.Before(p.retry.notBefore):
		return p.retry.err
	}
	return nil
}

// want has a remote mapped that operations wait for.
func (p *path) want(r *remote, now time.Time) {
	if r.state != remoteIdle {
		return
	}
	r.state = remoteAttaching
	switch {
	case p.conn == nil:
		p.reconnect(now)
	case p.conn.welcomed:
		p.conn.post(r)
	}
}

// mapped takes a mapping into use. False: it is not wanted any more.
func (p *path) mapped(l *clientConn, r *remote, mapping []byte, lead int) bool {
	mem := mapping[lead:][:r.key.Length:r.key.Length]
	units := newTouched(len(mapping))
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.lost != nil || r.state != remoteAttaching {
		return false
	}
	r.state, r.mapping, r.mem, r.err, r.notBefore = remoteReady, mapping, mem, nil, time.Time{}
	r.lead, r.touched = lead, units
	l.mapped++
	p.n.stats.attached.Add(1)
	p.n.stats.mappedBytes.Add(int64(len(mapping)))
	for o := r.waiting.First(); o != nil; o = r.waiting.First() {
		r.waiting.Remove(&o.link)
		o.waiting = false
		p.n.work.push(o)
	}
	return true
}

// denied fails what waits for a remote that could not be mapped.
func (p *path) denied(r *remote, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.state != remoteAttaching {
		return
	}
	r.state, r.err, r.notBefore = remoteIdle, err, time.Now().Add(attachPause)
	if errs.ClassOf(err) == errs.ClassPermanent || errs.Is(err, errs.InvalidKey) {
		r.state = remoteGone
	}
	p.abortAll(r, err)
}

// leave ends the use of a mapped remote. path.mu is held.
func (l *clientConn) leave(r *remote, err error) {
	if r.state != remoteReady {
		return
	}
	r.state, r.err = remoteLeaving, err
	l.p.abortAll(r, err)
	if r.running == 0 {
		l.post(r)
	}
}

// begin makes the chunks of a batch ready to be copied, and leaves those out whose operation has
// ended.
func (p *path) begin(batch []chunk) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range batch {
		c := &batch[i]
		o := c.op
		if o.err != nil {
			continue
		}
		o.remote.running++
		far, near := o.remote.mem[o.Offset:][c.from:c.to], o.Local[c.from:c.to]
		if c.dst, c.src = near, far; o.Kind == transport.Write {
			c.dst, c.src = far, near
		}
		c.checksummed, c.behind = o.Sum, len(o.Local)-c.to
		at := o.remote.lead + int(o.Offset)
		if o.remote.touched.first(at+c.from, at+c.to) {
			c.untouched, c.at = o.remote.mapping, at
		}
	}
}

// end settles the chunks of a batch.
func (p *path) end(batch []chunk) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range batch {
		c := &batch[i]
		r := c.op.remote
		if c.dst != nil {
			p.n.stats.slices.Add(1)
			if r.running--; r.running == 0 && r.state == remoteLeaving {
				p.conn.post(r)
			}
		}
		c.op.left -= c.to - c.from
		c.op.Checksum ^= c.checksum
		c.op.Summed = true
		p.finish(c.op)
	}
}

var errWithdrawn = errors.New("the peer has withdrawn the region")

// touchUnit is the part of a mapping for which it is remembered that it was touched, in bytes;
// smaller chunks just fault.
const touchUnit = 64 << 10

// touched is which units of a mapping were touched. The first touch of a page costs a fault, some
// 0.3 us for 4 KiB; asking the kernel for all pages of a chunk at once a quarter of it.
type touched []uint64

func newTouched(bytes int) touched { return make(touched, bytes/touchUnit/64+1) }

// first reports whether a unit of [from, to) was not touched before, and notes all of them.
func (t touched) first(from, to int) bool {
	if to-from < touchUnit {
		return false
	}
	was := true
	for u := from / touchUnit; u <= (to-1)/touchUnit; u++ {
		bit := uint64(1) << (u % 64)
		was = was && t[u/64]&bit != 0
		t[u/64] |= bit
	}
	return !was
}

// fault brings the pages of [from, to) of a mapping in. Pages that were never written come into
// being by it, as they would by the copy that follows. A kernel before 5.14 refuses, and the copy
// faults.
func fault(mapping []byte, from, to int) {
	from = from / os.Getpagesize() * os.Getpagesize()
	_ = unix.Madvise(mapping[from:to], unix.MADV_POPULATE_READ)
}
