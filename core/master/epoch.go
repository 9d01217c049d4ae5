package master

import (
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
)

// epochNow is the epoch of a master that starts now: later ones have higher epochs as long as the clock goes on.
func epochNow() ledger.Epoch { return ledger.Epoch(time.Now().UnixMilli()) }

// firstPut is a number below those of the puts of a master of an epoch, and above those of the masters before it, which
// made fewer than 4 million puts a millisecond.
func firstPut(e ledger.Epoch) uint64 { return uint64(e) << 22 }

// report is what a node has reported of one ledger so far.
type report struct {
	client model.ClientID
	seg    model.Segment
	epoch  ledger.Epoch
	lease  time.Duration // the longest of the masters before
	wiped  bool
	mirror *mirror // what this master knows of the ledger already, nil for nothing
	pieces [][]byte
	bytes  int
	heard  lease.Instant
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
