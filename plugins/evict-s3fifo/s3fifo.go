package s3fifo

import (
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/ranked"
)

// maxReads is where the count of an object's reads ends.
const maxReads = 3

// state is what the policy knows of an object, 4 bytes. From the lowest bit: whether it is
// in the main queue, or in spared, and else in the small one; its reads; and the
// fingerprint of its key, folded, 0 where that is unknown.
type state uint32

const (
	inMain     state = 1
	oneRead    state = 2
	readsMask  state = maxReads * oneRead
	printShift       = 3
	printBits        = 32 - printShift
)

func (s state) main() bool          { return s&inMain != 0 }
func (s state) reads() int          { return int(s & readsMask / oneRead) }
func (s state) fingerprint() uint32 { return uint32(s >> printShift) }

// read counts one read more.
func (s *state) read() {
	if s.reads() < maxReads {
		*s += oneRead
	}
}

// order implements ranked.Order.
type order struct {
	cfg Config
	set *ranked.Set[state]
	// The queues have the next to go in front. spared holds objects that were spared after
	// the latest insert: they are of the main queue, and wait until all others are taken or
	// a new object comes.
	small, main, spared ranked.List
	// Bytes of the ranked objects in small, and in main and spared; modulo 2^64.
	smallBytes, mainBytes uint64
	ghost                 ghost
}

func newPolicy(cfg Config) evict.Policy {
	return ranked.New(func(s *ranked.Set[state]) ranked.Order { return newOrder(cfg, s) })
}

func newOrder(cfg Config, s *ranked.Set[state]) *order {
	return &order{cfg: cfg, set: s, small: s.NewList(), main: s.NewList(), spared: s.NewList(), ghost: newGhost()}
}

// Insert implements ranked.Order.
func (o *order) Insert(at uint32, ev *evict.Event) {
	o.set.MoveAll(o.main, o.spared)
	e, print := o.set.At(at), fold(ev.Fingerprint)
	e.State = state(print) << printShift
	if o.ghost.take(print) {
		e.State |= inMain
		o.set.PushBack(o.main, at)
		o.mainBytes += o.set.Size(at)
	} else {
		o.set.PushBack(o.small, at)
		o.smallBytes += o.set.Size(at)
	}
}

// Access implements ranked.Order.
func (o *order) Access(at uint32, _ *evict.Event) { o.set.At(at).State.read() }

// Next implements ranked.Order.
func (o *order) Next() uint32 {
	for {
		small, main := o.set.Front(o.small), o.set.Front(o.main)
		switch {
		case small != 0 && (main == 0 || o.smallIsFull()):
			if e := o.set.At(small); e.State.reads() < o.cfg.PromoteReads {
				return small
			}
			o.promote(small)
		case main != 0:
			e := o.set.At(main)
			if e.State.reads() == 0 {
				return main
			}
			e.State -= oneRead
			o.set.Unlink(main)
			o.set.PushBack(o.main, main)
		case o.set.Front(o.spared) != 0:
			return o.set.Front(o.spared)
		default:
			return 0
		}
	}
}

func (o *order) smallIsFull() bool {
	return float64(o.smallBytes) >= o.cfg.SmallRatio*(float64(o.smallBytes)+float64(o.mainBytes))
}

// promote moves an object of the small queue to the main one, where its reads count anew.
func (o *order) promote(at uint32) {
	e := o.set.At(at)
	e.State = e.State&^readsMask | inMain
	o.set.Unlink(at)
	o.set.PushBack(o.main, at)
	o.smallBytes -= o.set.Size(at)
	o.mainBytes += o.set.Size(at)
}

// Leave implements ranked.Order.
func (o *order) Leave(at uint32) {
	if o.set.At(at).State.main() {
		o.mainBytes -= o.set.Size(at)
	} else {
		o.smallBytes -= o.set.Size(at)
	}
	o.ghost.trim(uint64(o.cfg.GhostRatio * float64(o.set.Len())))
}

// Spare implements ranked.Order.
func (o *order) Spare(at uint32) {
	e := o.set.At(at)
	e.State.read()
	e.State |= inMain
	o.set.PushBack(o.spared, at)
	o.mainBytes += o.set.Size(at)
}

// Evicted implements ranked.Order. Only what goes out of the small queue is remembered:
// the others had their chance.
func (o *order) Evicted(at uint32) {
	if s := o.set.At(at).State; !s.main() {
		o.ghost.add(s.fingerprint())
		o.ghost.trim(uint64(o.cfg.GhostRatio * float64(o.set.Len())))
	}
}
