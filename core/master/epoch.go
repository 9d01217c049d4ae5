package master

import (
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/master/journal"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
)

// epochNow is the epoch of a master that starts now: later ones have higher epochs as long as the clock goes on.
func epochNow() ledger.Epoch { return ledger.Epoch(time.Now().UnixMilli()) }

// firstPut is a number below those of the puts of a master of an epoch, and above those of the masters before it, which
// made fewer than 4 million puts a millisecond.
func firstPut(e ledger.Epoch) uint64 { return model.FirstPut(uint64(e)) }

// report is what a node has reported of one ledger so far.
type report struct {
	client model.ClientID
	seg    model.Segment
	epoch  ledger.Epoch
	lease  time.Duration // the longest of the masters before
	wiped  bool
	keeper string
	// largest is that of model.LedgerState.
	largest uint64
	grants  *model.GrantKey // nil where the node asks for no grants
	mirror  *mirror         // what this master knows of the ledger already, nil for nothing
	puts    uint64          // how many there are, as the node says
	pieces  [][]byte
	bytes   int
	heard   lease.Instant
}

// stripes are the striped replicas of which some parts lie in segments that have not attached. Guarded by the lock of
// mounts.
type stripes map[ledger.Put]*stripe

type stripe struct {
	objects.Found
	missing int
	since   lease.Instant
	until   lease.Instant
}

// add adds a part and returns the replica when it is whole.
func (w stripes) add(f *objects.Found, e *ledger.Entry, part segments.Extent, now, until lease.Instant) *objects.Found {
	id := e.Put - ledger.Put(e.Part)
	x := w[id]
	if x == nil || len(x.Parts) != int(e.Parts) {
		f.Parts = make([]segments.Extent, e.Parts)
		x = &stripe{Found: *f, missing: int(e.Parts), since: now, until: until}
		w[id] = x
	}
	if e.Part >= e.Parts || x.Parts[e.Part].Seg != nil && x.Parts[e.Part].Seg.Alive() {
		return nil // The caller's ledger contradicts another one; its part stays reserved until the segment goes.
	}
	if x.Parts[e.Part].Seg == nil {
		x.missing--
	}
	x.Parts[e.Part] = part
	x.until = max(x.until, until)
	if f.Complete && !x.Complete {
		x.Complete, x.Checksum, x.Grains, x.PinEnd = true, f.Checksum, f.Grains, f.PinEnd
	}
	if x.missing > 0 {
		return nil
	}
	delete(w, id)
	return &x.Found
}

// mirror is what a master that follows another one knows of a ledger, which the ledger's node tells it. The objects are
// in the table and their memory is reserved, as if the segment were attached; the registry does not have the segment
// before it is. Guarded by the lock of mounts.
type mirror struct {
	seg    *segments.Segment
	client model.ClientID
	fence  ledger.Epoch    // of the ledger
	seq    ledger.Seq      // the last batch that the mirror includes
	lease  time.Duration   // the longest of the masters before
	heard  journal.Instant // when the node reported last
	// promoted is set when this master has fenced the ledger and writes it.
	promoted bool

	puts map[ledger.Put]mirrored // all that the ledger has
	open map[ledger.Put]struct{} // those of objects that have not ended
	// cold are those of puts that the table does not have: held memory, copies in progress, parts of striped replicas,
	// and, without a state, values that a later one has replaced. They are adopted when the segment is attached.
	cold map[ledger.Put]*ledger.Entry
}

// mirrored is where a put of a mirror lies.
type mirrored struct {
	object       objects.Handle // 0 for a cold one
	offset, size uint64
}

// grant is the answer to the attach that a report follows.
func (r *report) grant() model.LedgerGrant {
	g := model.LedgerGrant{Epoch: uint64(r.epoch)}
	if r.mirror != nil {
		g.Tail, g.Since = true, uint64(r.mirror.seq)
	}
	return g
}
