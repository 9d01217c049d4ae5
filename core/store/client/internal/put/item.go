package put

import (
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/core/store/internal/seal"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Item is one object to put.
type Item struct {
	// Replicas are the allocation of the master.
	Replicas []model.Replica
	// Existed is true for an object that existed already.
	Existed bool
	Err     error

	key       model.Key
	group     string
	one       [1]store.Fragment // the backing array of the fragments of a contiguous value
	fragments []store.Fragment
	size      uint64 // of the object
	// plain and value are the size and the fragments of the value of an item that is sealed: after that,
	// the fragments are those of the object. Without a seal, plain is the size.
	plain    uint64
	value    []store.Fragment
	checksum model.Checksum
	// checksummed is the replica, of Replicas, whose checksum the transfer computes, nil for none.
	checksummed *model.Replica
	// grains are the checksums of the grains, where the object has some or the item writes ranges.
	grains      []uint32
	started     time.Time // when the master was asked for the replicas
	epoch       uint64    // of the put while the session counts it as in progress, else 0
	first, last int       // the requests of the replica whose checksums are computed
	ranges      bool      // it writes ranges of an object
	deadline    time.Time // of the transfer
	// indeterminate: a peer may still write to the replicas after the put failed.
	indeterminate bool
	// nodeGone: the node of one of the replicas is gone, or has keys of another master than the one that granted the write.
	nodeGone bool
	// unconfirmed: the put did not begin, because a node did not confirm to the master where it writes.
	unconfirmed bool
	// decided: the master has ended the put, or may have; there is nothing to revoke.
	decided          bool
	again            bool // it is not the first attempt
	mayRetry         bool // an attempt in a new allocation may follow an indeterminate one
	wasIndeterminate bool // an earlier attempt was
}

// Reserved makes the item of a put whose bytes come later, and are to be sealed or not.
func Reserved(key model.Key, size uint64, group string, sealed bool) Item {
	it := Item{key: key, size: size, plain: size, group: group}
	if sealed && size > 0 {
		it.reserveTrailer()
	}
	return it
}

// Ranges makes an item that writes ranges of an object, whose space it got before, until a deadline.
func (it *Item) Ranges(fragments []store.Fragment, deadline time.Time) *Item {
	return &Item{key: it.key, size: it.size, plain: it.plain, Replicas: it.Replicas, fragments: fragments, deadline: deadline, ranges: true}
}

// Key returns the key.
func (it *Item) Key() model.Key { return it.key }

// Size returns the size of the value in bytes.
func (it *Item) Size() uint64 { return it.plain }

// StoredSize returns the size of the object in bytes, with the trailer of a sealed one.
func (it *Item) StoredSize() uint64 { return it.size }

// Fragments returns what the item writes.
func (it *Item) Fragments() []store.Fragment { return it.fragments }

// Indeterminate reports whether a peer may still write to the replicas after the put failed.
func (it *Item) Indeterminate() bool { return it.indeterminate }

// Linger notes that a write is still in progress.
func (it *Item) Linger() { it.indeterminate = true }

// Inherit notes that a write of ranges failed.
func (it *Item) Inherit(write *Item) { it.indeterminate = it.indeterminate || write.indeterminate }

// SetGrains sets the checksums of all grains, from which follows the checksum that End reports.
func (it *Item) SetGrains(all []uint32) {
	it.checksum, it.grains = fragment.CRC32C(fragment.Combine(all, it.size)), nil
	if len(all) > 1 {
		it.grains = all
	}
}

// grained reports whether the checksums of grains are needed.
func (it *Item) grained() bool { return it.ranges || model.GrainCount(it.size) > 0 }

// Reopen prepares the item for another End after the master gave no answer.
func (it *Item) Reopen() { it.Err, it.decided = nil, false }

func (it *Item) failed() bool { return it.Err != nil }

// set makes the item that of an input, or sets Err.
func (it *Item) set(in *store.Item) {
	it.key, it.group, it.Err = in.Key, in.Group, model.ValidateKey(in.Key)
	it.fragments, it.size = fragment.Chain(it.one[:], in.Value)
	it.plain, it.value = it.size, nil
	if it.Err == nil && it.size == 0 {
		it.Err = errs.New(errs.InvalidParams, "store: put "+store.Quote(it.key), "the value is empty; an object has at least 1 byte")
	}
}

// put names the item's put to the master, 0 if the master named no replica.
func (it *Item) put() uint64 {
	if len(it.Replicas) == 0 {
		return 0
	}
	return it.Replicas[0].ID
}

// Revocation returns the item's put for a call that revokes it.
func (it *Item) Revocation() model.RevokeItem {
	return model.RevokeItem{Key: it.key, Put: it.put(), Quarantined: it.indeterminate}
}

// CheckReplicas returns an error for replicas that do not fit the value.
func (it *Item) CheckReplicas() error {
	if len(it.Replicas) == 0 {
		return errs.New(errs.InvalidReplica, "store: put "+store.Quote(it.key), "the master gave no space to write to")
	}
	for i := range it.Replicas {
		if n := it.Replicas[i].Bytes(); n != it.size {
			return errs.New(errs.InvalidReplica, "store: put "+store.Quote(it.key), "the master gave %d bytes of space for %d", n, it.size)
		}
	}
	return nil
}

// reserveTrailer makes the item that of a sealed object.
func (it *Item) reserveTrailer() {
	if it.plain > seal.MaxSize {
		it.Err = errs.New(errs.InvalidParams, "store: put "+store.Quote(it.key), "the value has %d bytes, more than an object can have", it.plain)
		return
	}
	it.value, it.size, it.fragments = it.fragments, seal.SealedSize(it.plain), nil
}
