package pathkit

import (
	"iter"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// MaxKeys is how many keys one path holds at most.
const MaxKeys = 1 << 16

// imported is a key that was imported.
type imported[R any] struct {
	remote         R
	region, length uint64
}

// AddKey takes a key in that the caller has decoded: region names it in errors, length is
// the end of its range in bytes, and remote what the transport keeps of it. A key that is there
// already has its old RemoteID and its old remote. BufferOverflow for one more than MaxKeys, ErrClosed
// after Shut. RemoteIDs count from 1. The lock is held.
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

// Remote returns what AddKey was given for an id that it returned, false for any other
// number. The lock is held.
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

// Check returns the remote of an operation, or why Submit refuses it: ErrClosed, or
// InvalidParams for an unknown kind, a remote or a rail that the path does not have, or a range past the end
// of the region. The lock is held.
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
