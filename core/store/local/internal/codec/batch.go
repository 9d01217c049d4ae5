package codec

import (
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// Ref is a piece of memory: bytes [Offset, Offset+Length) of a region.
type Ref struct{ Region, Offset, Length uint64 }

// KeysOut returns keys as they travel.
func KeysOut(keys []model.Key) [][]byte {
	out := make([][]byte, len(keys))
	for i, k := range keys {
		out[i] = []byte(k)
	}
	return out
}

// KeysIn is the reverse.
func KeysIn(in [][]byte) []model.Key {
	out := make([]model.Key, len(in))
	for i, k := range in {
		out[i] = string(k)
	}
	return out
}

// ErrorsOut returns the errors of n items as they travel.
func ErrorsOut(n int, at func(int) error) []*localv1.ItemError {
	var out []*localv1.ItemError
	for i := range n {
		if err := at(i); err != nil {
			out = append(out, &localv1.ItemError{Index: uint32(i), Error: wire.ToProto(err)})
		}
	}
	return out
}

// ErrorsIn gives each error to its item of n. Indexes beyond are an error of the message.
func ErrorsIn(n int, in []*localv1.ItemError, set func(int, error)) error {
	for _, e := range in {
		if uint64(e.GetIndex()) >= uint64(n) {
			return errs.New(errs.DeserializeFail, "local client", "an error is for item %d of %d", e.GetIndex(), n)
		}
		err := wire.FromProto(e.GetError())
		if err == nil {
			err = errs.New(errs.Internal, "local client", "an item failed without a reason")
		}
		set(int(e.GetIndex()), err)
	}
	return nil
}

// RefsOut returns pieces as they travel.
func RefsOut(refs []Ref) *localv1.Refs {
	n := len(refs)
	all := make([]uint64, 3*n)
	out := &localv1.Refs{Region: all[:n:n], Offset: all[n : 2*n : 2*n], Length: all[2*n:]}
	for i, r := range refs {
		out.Region[i], out.Offset[i], out.Length[i] = r.Region, r.Offset, r.Length
	}
	return out
}

// RefsIn is the reverse.
func RefsIn(in *localv1.Refs) ([]Ref, error) {
	n := len(in.GetRegion())
	if len(in.GetOffset()) != n || len(in.GetLength()) != n {
		return nil, uneven("pieces of memory")
	}
	out := make([]Ref, n)
	for i := range out {
		out[i] = Ref{in.Region[i], in.Offset[i], in.Length[i]}
	}
	return out, nil
}

// Share divides n pieces among items by how many each has and calls f with the bounds of
// each item. After an error what f was told is void.
func Share(parts []uint32, items, n int, f func(item, lo, hi int)) error {
	if len(parts) != items {
		return uneven("numbers of pieces")
	}
	at := 0
	for i, p := range parts {
		if uint64(p) > uint64(n-at) {
			return uneven("pieces of memory")
		}
		f(i, at, at+int(p))
		at += int(p)
	}
	if at != n {
		return uneven("pieces of memory")
	}
	return nil
}

func uneven(what string) error {
	return errs.New(errs.InvalidParams, "local client", "the columns of a message differ in length: %s", what)
}
