// Package pathkit is the half of a transport.Path that is the same in every transport: the queue of
// completions and how reapers wait for it, the keys that were imported, the operations in flight
// with their bounds and deadlines, and the errors about all that.
//
// What is left to the author of a transport is to move bytes. A path embeds a Base and its lock, an
// operation embeds a Record:
//
//	type op struct {
//		pathkit.Record
//		sent int // the transport's own state
//	}
//
//	type path struct {
//		mu sync.Mutex
//		pathkit.Base[*remote, op, *op]
//	}
//
// Reap comes with it. Import decodes the key and calls AddKey; Submit calls Check, Room and Accept
// for each operation and starts it; the goroutine that learns how it ended calls Finish, once;
// Close calls Shut and ends what is Active. The example shows a whole path.
//
// Locking: the lock is the path's own, and guards a Base as it guards the rest of the path. Every
// method says whether the caller holds it. Nothing blocks while it is held, and no method calls
// back into the transport, but for the function that is given to Init. The function of DeliverTo is
// the host's; it does not call the path.
//
// Cost: no operation allocates once a path has had as many in flight as it ever will.
//
// The package imports the standard library, sdk/transport and sdk/errs only.
package pathkit

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Limits bounds what one path has in flight.
type Limits struct {
	// Ops is how many operations may be accepted and not reaped yet, at least 1. Completions that
	// the caller has not fetched count, so that they are bounded too.
	Ops int
	// Bytes is how many bytes the operations in flight may have, 0 for any number. One operation
	// alone may have more.
	Bytes int64
	// Timeout is the time that an operation without a deadline gets, more than 0.
	Timeout time.Duration
	// Rails is how many rails the path has: an operation may name rail 1 to Rails, or none.
	Rails int
}

const importing = ": import key"

// Base is the state of a path, to be embedded in it. R is what the transport keeps of an imported
// key, T its operation. Use Init before anything else; do not copy.
type Base[R, T any, O Operation[T]] struct {
	mu     *sync.Mutex
	name   string
	limits Limits
	expire func(due iter.Seq[O])
	ready  chan struct{} // holds a token when there may be something to reap
	// pending is how many completions can be reaped.
	pending atomic.Int64

	// Guarded by mu.
	closed  bool
	keys    []imported[R]
	ids     map[string]transport.RemoteID
	active  []O
	bytes   int64 // of active
	free    []O
	done    []transport.Completion
	reaped  int // how much of done was given out
	deliver func(transport.Completion) bool
	timer   *time.Timer
	timerAt time.Time // when timer runs sweep; zero for not at all

	// What is known of the path's progress: see progress.
	meter    func() uint64
	patience int // how many times a stall limit counts; 0 for once
	hearing  func() uint64
	hasty    bool   // reads may be: see Hearing
	finished uint64 // operations that ended well
	moved    pulse  // finished and meter
	heard    pulse  // finished and hearing
}

// pulse is when a number changed last.
type pulse struct {
	number uint64
	at     time.Time // the last sweep that found it changed, or was excused from telling
}

func (p *pulse) look(number uint64, more func() uint64, excused bool, now time.Time) {
	if more != nil {
		number += more()
	}
	if number != p.number || excused {
		p.number, p.at = number, now
	}
}

// Init makes a Base ready. mu is the lock of the path; name begins the text of errors
// ("transport/x: path to ADDRESS"). expire is called with the lock held and has to see to it that
// each operation in due ends, with ErrOverdue; it may call Finish for them, or leave an operation
// to be finished later by the goroutine that works with its memory.
func (b *Base[R, T, O]) Init(mu *sync.Mutex, name string, limits Limits, expire func(due iter.Seq[O])) {
	b.mu, b.name, b.limits, b.expire = mu, name, limits, expire
	b.ready = make(chan struct{}, 1)
	b.ids = map[string]transport.RemoteID{}
	b.timer = time.AfterFunc(time.Hour, b.sweep)
	b.timer.Stop()
}

// Name returns the name given to Init.
func (b *Base[R, T, O]) Name() string { return b.name }

// Closed reports whether Shut was called. The lock is held.
func (b *Base[R, T, O]) Closed() bool { return b.closed }

// Shut closes the path to new keys and operations and stops the clock: deadlines count no more. It
// reports whether this call was the first. The caller holds the lock, and ends what is Active with
// ErrClosed. Completions can still be reaped.
func (b *Base[R, T, O]) Shut() bool {
	if b.closed {
		return false
	}
	b.closed = true
	b.timer.Stop()
	b.Signal() // Reap may have to say that this is the end.
	return true
}

// Record is what a Base knows of an accepted operation: its transport.Op, with the deadline filled
// in. Embed it in the operation of the transport. The lock of the path guards it; the fields do not
// change before Finish, but for the checksum.
type Record struct {
	transport.Op
	// Checksum is that of the bytes, which the transport may set before Finish, with Summed.
	Checksum uint32
	Summed   bool
	// Grained says that the checksums in Grains are set.
	Grained bool

	began time.Time // when it was accepted
	times int       // the patience of the path then
	index int       // place in Base.active, from 1; 0 for not active
}

func (r *Record) record() *Record { return r }

// Late reports whether the deadline has passed.
func (r *Record) Late(now time.Time) bool { return !r.Deadline.After(now) }

// Operation is a pointer to a struct T that embeds a Record.
type Operation[T any] interface {
	*T
	record() *Record
}

// Room reports whether one more operation may be accepted; false is back-pressure. The lock is
// held.
func (b *Base[R, T, O]) Room(in *transport.Op) bool {
	if len(b.active)+len(b.done)-b.reaped >= b.limits.Ops {
		return false
	}
	return b.limits.Bytes <= 0 || b.bytes == 0 || b.bytes+int64(len(in.Local)) <= b.limits.Bytes
}

// Accept makes an operation active and has its deadline, which starts now where the caller set
// none, and its stall limit watched. An operation whose deadline has passed already is not watched:
// see Late. All but the Record of what it returns is as Finish left it. The lock is held.
func (b *Base[R, T, O]) Accept(in *transport.Op, now time.Time) O {
	var o O
	if n := len(b.free); n > 0 {
		o, b.free = b.free[n-1], b.free[:n-1]
	} else {
		o = new(T)
	}
	b.active = append(b.active, o)
	b.bytes += int64(len(in.Local))
	r := o.record()
	*r = Record{Op: *in, began: now, times: b.patience, index: len(b.active)}
	if r.Deadline.IsZero() {
		r.Deadline = now.Add(b.limits.Timeout)
	}
	if at := r.look(now); !r.Late(now) && (b.timerAt.IsZero() || at.Before(b.timerAt)) {
		b.setTimer(at, now)
	}
	return o
}

// Finish completes an active operation, once: OK where err is nil, Quarantined if indeterminate,
// else Failed. Nothing of the transport touches its memory any more, but for what indeterminate
// admits: that the peer may still store bytes of it. o is zeroed and used again by a later Accept;
// what the caller wants to keep in it, such as the capacity of a slice, it sets afterwards. The
// lock is held.
func (b *Base[R, T, O]) Finish(o O, err error, indeterminate bool) {
	r := o.record()
	i, last := r.index-1, len(b.active)-1
	if i < 0 || i > last || b.active[i] != o {
		panic("pathkit: Finish of an operation that is not active")
	}
	c := transport.Completion{ID: r.ID}
	if r.Summed && r.Sum && err == nil {
		c.Sum, c.Summed = r.Checksum, true
	}
	c.Grained = r.Grained && r.Grains.Sums != nil && err == nil
	if err == nil {
		b.finished++
	}
	b.bytes -= int64(len(r.Local))
	b.active[i] = b.active[last]
	b.active[i].record().index = i + 1
	b.active[last] = nil
	b.active = b.active[:last]
	var zero T
	*o = zero
	b.free = append(b.free, o)
	b.complete(c, err, indeterminate)
}

// Active yields the operations in flight, in no order. The loop may Finish them; then it may see
// one twice, and none that was finished. The lock is held throughout.
func (b *Base[R, T, O]) Active() iter.Seq[O] {
	return func(yield func(O) bool) {
		for i := len(b.active) - 1; i >= 0; i = min(i, len(b.active)) - 1 {
			if !yield(b.active[i]) {
				return
			}
		}
	}
}

// Len is how many operations are active. The lock is held.
func (b *Base[R, T, O]) Len() int { return len(b.active) }

// Bytes is how many bytes they have. The lock is held.
func (b *Base[R, T, O]) Bytes() int64 { return b.bytes }

// MaxKeys is how many keys one path holds at most.
const MaxKeys = 1 << 16

// imported is a key that was imported.
type imported[R any] struct {
	remote         R
	region, length uint64
}

// AddKey takes a key in that the caller has decoded: region names it in errors, length is the end
// of its range in bytes, and remote what the transport keeps of it. A key that is there already has
// its old RemoteID and its old remote. BufferOverflow for one more than MaxKeys, ErrClosed after
// Shut. RemoteIDs count from 1. The lock is held.
func (b *Base[R, T, O]) AddKey(k transport.Key, region, length uint64, remote R) (transport.RemoteID, error) {
	if b.closed {
		return 0, b.ErrClosed()
	}
	if id, ok := b.ids[string(k)]; ok {
		return id, nil
	}
	if len(b.keys) >= MaxKeys {
		return 0, errs.New(errs.BufferOverflow, b.name+importing, "the path holds %d keys, the most it may; dial again", MaxKeys)
	}
	b.keys = append(b.keys, imported[R]{remote, region, length})
	id := transport.RemoteID(len(b.keys))
	b.ids[string(k)] = id
	return id, nil
}

// Remote returns what AddKey was given for an id that it returned, false for any other number. The
// lock is held.
func (b *Base[R, T, O]) Remote(id transport.RemoteID) (remote R, ok bool) {
	if id == 0 || uint64(id) > uint64(len(b.keys)) {
		return remote, false
	}
	return b.keys[id-1].remote, true
}

// Remotes yields the remotes of all keys in the order of their RemoteIDs. The lock is held
// throughout.
func (b *Base[R, T, O]) Remotes() iter.Seq[R] {
	return func(yield func(R) bool) {
		for i := range b.keys {
			if !yield(b.keys[i].remote) {
				return
			}
		}
	}
}

// Check returns the remote of an operation, or why Submit refuses it: ErrClosed, or InvalidParams
// for an unknown kind, a remote or a rail that the path does not have, or a range past the end of
// the region. The lock is held.
func (b *Base[R, T, O]) Check(in *transport.Op) (remote R, err error) {
	if b.closed {
		return remote, b.ErrClosed()
	}
	if in.Kind != transport.Read && in.Kind != transport.Write {
		return remote, errs.New(errs.InvalidParams, b.name, "operation %d has unknown kind %d", in.ID, in.Kind)
	}
	if in.Remote == 0 || uint64(in.Remote) > uint64(len(b.keys)) {
		return remote, errs.New(errs.InvalidParams, b.name, "operation %d names remote %d, which was not imported here", in.ID, in.Remote)
	}
	if int(in.Rail) > b.limits.Rails {
		return remote, errs.New(errs.InvalidParams, b.name, "operation %d names rail %d, the path has %d", in.ID, in.Rail, b.limits.Rails)
	}
	k := &b.keys[in.Remote-1]
	if n := uint64(len(in.Local)); in.Offset > k.length || n > k.length-in.Offset {
		return remote, errs.New(errs.InvalidParams, b.name, "operation %d: %d bytes at offset %d reach past the end of region %d (%d bytes)",
			in.ID, n, in.Offset, k.region, k.length)
	}
	return k.remote, nil
}
