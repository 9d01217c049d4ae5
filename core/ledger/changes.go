package ledger

import "fmt"

// ChangeKind is what a change says, see Batch.
type ChangeKind uint8

// The kinds of changes.
const (
	// Began says that a put got memory.
	Began ChangeKind = ChangeKind(kindBegin)
	// Committed says that a put is complete.
	Committed ChangeKind = ChangeKind(kindCommit)
	// Unlinked says that what a put wrote can no longer be read; its memory is held.
	Unlinked ChangeKind = ChangeKind(kindUnlink)
	// Reclaimed says that the memory of a put is free.
	Reclaimed ChangeKind = ChangeKind(kindGone)
)

// Change is one record of a batch. The object of a begin is valid during the call that gets it; Clone keeps
// it.
type Change struct {
	Kind ChangeKind
	// Version is that of the put; its epoch is known of a begin only.
	Version
	Object
	Ending
}

// Clone returns the entry of a put that has just begun.
func (c *Change) Clone() Entry {
	return Entry{Version: c.Version, State: Writing, Object: c.Object.clone()}
}

// Changes calls do for the records of the batches that Since returned, without those up to a number, and
// returns the number of the last batch. ErrGap where batches behind that number are missing, ErrDamaged
// where bytes are not what was written; what comes before them was passed to do.
func Changes(batches []byte, after Seq, do func(*Change) error) (Seq, error) {
	var scratch []Extent
	for len(batches) > 0 {
		f, err := parse(batches)
		if err != nil {
			return after, err
		}
		batches = batches[f.size:]
		switch {
		case f.seq > after+1:
			return after, fmt.Errorf("%w: batch %d follows batch %d", ErrGap, f.seq, after)
		case f.seq <= after:
			continue
		}
		err = f.each(&scratch, func(r *record) error {
			c := Change{Kind: ChangeKind(r.kind), Version: Version{Put: r.put}, Ending: r.ending}
			if r.kind == kindBegin {
				c.Version, c.Object = r.version, r.object
			}
			return do(&c)
		})
		if err != nil {
			return after, err
		}
		after = f.seq
	}
	return after, nil
}
