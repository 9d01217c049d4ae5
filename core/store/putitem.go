package store

import (
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// putItem is one object on its way into the pool.
type putItem struct {
	key      model.Key
	group    string
	one      [1]span // backs spans of a value in one piece
	spans    []span
	size     uint64
	sum      model.Checksum
	summer   *model.Replica // of replicas: whose checksum is computed during the copy, nil for none
	first    int            // index of its first request
	last     int            // index behind its last
	replicas []model.Replica
	deadline time.Time // of the transfer
	existed  bool
	err      error
	// doubted: a peer may still write to the object's place after the put failed.
	doubted bool
	// lost: the node of one of the object's places is gone.
	lost bool
	// decided: the master has ended the put, or may have; there is nothing to revoke.
	decided  bool
	again    bool // it is not the first attempt
	hasty    bool // an attempt in a new allocation may follow an indeterminate one
	repeated bool // an earlier attempt was indeterminate
}

// set makes the item that of an input, or says in err why it cannot be.
func (it *putItem) set(in *Item) {
	it.key, it.group, it.err = in.Key, in.Group, model.ValidateKey(in.Key)
	it.spans, it.size = chain(it.one[:], in.Parts)
	if it.err == nil && it.size == 0 {
		it.err = errs.New(errs.InvalidParams, "store: put "+quote(it.key), "the value is empty; an object has at least 1 byte")
	}
}

func (it *putItem) failed() bool { return it.err != nil }

// put names the item's put to the master, 0 where the master named no place.
func (it *putItem) put() uint64 {
	if len(it.replicas) == 0 {
		return 0
	}
	return it.replicas[0].ID
}

// revoked gives the item's put up.
func (it *putItem) revoked() model.RevokeItem {
	return model.RevokeItem{Key: it.key, Put: it.put(), Quarantined: it.doubted}
}

// checkPlaces refuses an answer of the master that does not fit the value.
func (it *putItem) checkPlaces() error {
	if len(it.replicas) == 0 {
		return errs.New(errs.InvalidReplica, "store: put "+quote(it.key), "the master gave no place to write to")
	}
	for i := range it.replicas {
		if n := it.replicas[i].Bytes(); n != it.size {
			return errs.New(errs.InvalidReplica, "store: put "+quote(it.key), "the master gave %d bytes of room for %d", n, it.size)
		}
	}
	return nil
}

// quote shows a key in an error, shortened.
func quote(k model.Key) string {
	if len(k) > 64 {
		k = k[:64] + "..."
	}
	return "\"" + k + "\""
}
