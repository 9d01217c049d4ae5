package tier

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

const (
	// maxEvents is how many events wait for the policy at most. Beyond it, accesses are dropped, which affect ranks only.
	maxEvents = 1 << 16
	// maxWriters bounds the clients whose last put is known.
	maxWriters = 4096
)

// order is what befell the copies of a disk, as its policy is to learn it: copies come in the order in which clients put the
// objects, though several are saved at a time. The caller holds the lock of the disk.
type order struct {
	ranked bool    // a Ranking takes the events
	events []event // that it has not taken yet
	lastBy map[model.ClientID]saved
	// saving are values that are being saved, and saved the copies that wait for those of earlier values, by value.
	saving map[ledger.Put]struct{}
	saved  []saved
}

// event is what befell the copy of a put. parent is the copy of the object before it in its prompt, 0 where unknown.
type event struct {
	op          evict.Op
	put, parent ledger.Put
}

// saved is a value that a client put, and its copy.
type saved struct {
	value, copy ledger.Put
	writer      model.ClientID
}

func newOrder() order {
	return order{lastBy: map[model.ClientID]saved{}, saving: map[ledger.Put]struct{}{}}
}

// begin says that a value is being saved, and over that it is saved, or not.
func (o *order) begin(value ledger.Put) { o.saving[value] = struct{}{} }

func (o *order) over(value ledger.Put) {
	delete(o.saving, value)
	o.flush()
}

// came says that a copy is there.
func (o *order) came(s saved) {
	i, _ := slices.BinarySearchFunc(o.saved, s.value, func(s saved, value ledger.Put) int { return cmp.Compare(s.value, value) })
	o.saved = slices.Insert(o.saved, i, s)
	o.flush()
}

// flush notes the copies that wait for no earlier one.
func (o *order) flush() {
	least := ledger.Put(math.MaxUint64)
	for value := range maps.Keys(o.saving) {
		least = min(least, value)
	}
	n := 0
	for n < len(o.saved) && o.saved[n].value < least {
		o.note(event{evict.Insert, o.saved[n].copy, o.before(o.saved[n])})
		n++
	}
	o.saved = slices.Delete(o.saved, 0, n)
}

// read says that a copy was read after another one, 0 for none, and went that it is gone.
func (o *order) read(p, parent ledger.Put) { o.note(event{evict.Access, p, parent}) }

func (o *order) went(p ledger.Put) {
	if i := slices.IndexFunc(o.saved, func(s saved) bool { return s.copy == p }); i >= 0 {
		o.saved = slices.Delete(o.saved, i, i+1)
		return
	}
	o.note(event{evict.Remove, p, 0})
}

func (o *order) note(e event) {
	if o.ranked && (e.op != evict.Access || len(o.events) < maxEvents) {
		o.events = append(o.events, e)
	}
}

// before returns the copy of the object that the same client put before this one in the same call, so as a rule in the same
// prompt.
func (o *order) before(s saved) (parent ledger.Put) {
	last, known := o.lastBy[s.writer]
	if known && last.value < s.value && s.value-last.value < model.CallGap {
		parent = last.copy
	}
	if !known && len(o.lastBy) >= maxWriters {
		clear(o.lastBy)
	}
	o.lastBy[s.writer] = s
	return parent
}
