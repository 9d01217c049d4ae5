package pathkit

import (
	"iter"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Record is what a Base knows of an accepted operation: its transport.Op, with the deadline
// filled in. Embed it in the operation of the transport. The lock of the path guards it; the fields do
// not change before Finish, but for the checksum.
type Record struct {
	ID       uint64
	Kind     transport.OpKind
	Local    []byte
	Remote   transport.RemoteID
	Offset   uint64
	Rail     transport.RailID
	Deadline time.Time
	Stall    time.Duration
	Hasty    bool
	Sum      bool
	// Checksum is that of the bytes, which the transport may set before Finish, with
	// Summed.
	Checksum uint32
	Summed   bool

	began time.Time // when it was accepted
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

// Room reports whether one more operation may be accepted; false is back-pressure. The
// lock is held.
func (b *Base[R, T, O]) Room(in *transport.Op) bool {
	if len(b.active)+len(b.done)-b.reaped >= b.limits.Ops {
		return false
	}
	return b.limits.Bytes <= 0 || b.bytes == 0 || b.bytes+int64(len(in.Local)) <= b.limits.Bytes
}

// Accept makes an operation active and has its deadline, which starts now where the caller
// set none, and its stall limit watched. An operation whose deadline has passed already is not watched: see Late. All but
// the Record of what it returns is as Finish left it. The lock is held.
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
	*r = Record{
		ID: in.ID, Kind: in.Kind, Local: in.Local, Remote: in.Remote, Offset: in.Offset, Rail: in.Rail, Deadline: in.Deadline, Stall: in.Stall, Hasty: in.Hasty, Sum: in.Sum,
		began: now, index: len(b.active),
	}
	if r.Deadline.IsZero() {
		r.Deadline = now.Add(b.limits.Timeout)
	}
	if at := r.look(now); !r.Late(now) && (b.timerAt.IsZero() || at.Before(b.timerAt)) {
		b.setTimer(at, now)
	}
	return o
}

// Finish completes an active operation, once: OK where err is nil, Quarantined with doubt,
// else Failed. Nothing of the transport touches its memory any more, but for what doubt admits:
// that the peer may still store bytes of it. o is zeroed and used again by a later Accept; what the
// caller wants to keep in it, such as the room of a slice, it sets afterwards. The lock is held.
func (b *Base[R, T, O]) Finish(o O, err error, doubt bool) {
	r := o.record()
	i, last := r.index-1, len(b.active)-1
	if i < 0 || i > last || b.active[i] != o {
		panic("pathkit: Finish of an operation that is not active")
	}
	c := transport.Completion{ID: r.ID}
	if r.Summed && r.Sum && err == nil {
		c.Sum, c.Summed = r.Checksum, true
	}
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
	b.complete(c, err, doubt)
}

// Active yields the operations under way, in no order. The loop may Finish them; then it
// may see one twice, and none that was finished. The lock is held throughout.
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
