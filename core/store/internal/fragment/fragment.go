// Package fragment computes with the fragments of one object's value: which requests move them, and
// what their checksum is.
package fragment

import (
	"errors"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Chain returns the fragments of a value that lies in several pieces of memory, one after the other,
// and its size. It leaves out empty memory, and uses buf if that is large enough.
func Chain(buf []store.Fragment, value [][]byte) (fs []store.Fragment, size uint64) {
	fs = buf[:0]
	for _, mem := range value {
		if len(mem) > 0 {
			fs = append(fs, store.Fragment{Offset: size, Mem: mem})
			size += uint64(len(mem))
		}
	}
	return fs, size
}

// Cut shortens fragments that begin at 0 and have no gaps to size bytes. It returns false if they are
// shorter.
func Cut(fs []store.Fragment, size uint64) ([]store.Fragment, bool) {
	for i := range fs {
		f := &fs[i]
		if f.Offset+uint64(len(f.Mem)) >= size {
			f.Mem = f.Mem[:size-f.Offset]
			return fs[:i+1], true
		}
	}
	return fs, size == 0
}

// Covers reports whether fragments are all bytes of an object, in order and without gaps.
func Covers(fs []store.Fragment, size uint64) bool {
	at := uint64(0)
	for _, f := range fs {
		if f.Offset != at {
			return false
		}
		at += uint64(len(f.Mem))
	}
	return at == size
}

// Bytes returns the size of fragments.
func Bytes(fs []store.Fragment) (n int) {
	for _, f := range fs {
		n += len(f.Mem)
	}
	return n
}

// Requests appends the requests that move fragments from or to one replica, which may be striped, in
// the order of the object's bytes. checksum asks for their checksum during the copy, where that is
// possible.
func Requests(dst []transfer.Request, kind transport.OpKind, fs []store.Fragment, r *model.Replica, deadline time.Time, checksum bool) []transfer.Request {
	for off, stripe := range r.Parts {
		for _, f := range fs {
			lo, hi := max(f.Offset, off), min(f.Offset+uint64(len(f.Mem)), off+stripe.Size)
			if lo >= hi {
				continue
			}
			dst = append(dst, transfer.Request{
				Kind: kind, Local: f.Mem[lo-f.Offset : hi-f.Offset], Peer: stripe.Endpoint, Addr: stripe.Address + (lo - off), Deadline: deadline, Sum: checksum, Grant: stripe.Permit,
			})
		}
	}
	return dst
}

// Outcome is the result of all requests of one item: the end of the last, and the first error, but
// before all others an error that says that memory may still be touched.
func Outcome(results []transfer.Result) transfer.Result {
	var out transfer.Result
	for _, r := range results {
		if r.Err != nil && (out.Err == nil || errors.Is(r.Err, transfer.ErrQuarantined)) {
			out.Err = r.Err
		}
		if r.Done.After(out.Done) {
			out.Done = r.Done
		}
	}
	return out
}

// NotEmpty returns the fragments that are not empty.
func NotEmpty(fs []store.Fragment) []store.Fragment {
	empty := func(f store.Fragment) bool { return len(f.Mem) == 0 }
	if !slices.ContainsFunc(fs, empty) {
		return fs
	}
	return slices.DeleteFunc(slices.Clone(fs), empty)
}
