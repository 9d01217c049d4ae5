package path

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// maxRegions bounds the ranges of one peer that are imported on one path.
	maxRegions = 1 << 14
	// maxReasons bounds the reasons in an error about them.
	maxReasons = 4
)

// Imports makes the peer's ranges usable, and forgets those it no longer has. It leaves out ranges
// that cannot be imported and names them in the error. With full, the path has no space for more.
func (p *Path) Imports(ctx context.Context, keys []metadata.RegionKey) (full bool, err error) {
	known := *p.Remotes.Load()
	next := make([]remote, 0, len(keys))
	var reasons []error
	without := 0
	fail := func(err error) {
		if without++; len(reasons) < maxReasons {
			reasons = append(reasons, err)
		}
	}
	for i, k := range keys {
		if i == maxRegions {
			fail(errs.New(errs.InvalidParams, "", "it has %d ranges, of which %d can be used", len(keys), maxRegions))
			break
		}
		if k.Length == 0 || k.Addr+k.Length < k.Addr {
			fail(errs.New(errs.InvalidParams, "", "a range of %d bytes at %#x is not possible", k.Length, k.Addr))
			continue
		}
		r := remote{Addr: k.Addr, Length: k.Length, key: string(k.Key), Location: k.Location}
		i, found := slices.BinarySearchFunc(known, r.Addr, func(o remote, addr uint64) int { return cmp.Compare(o.Addr, addr) })
		if found && known[i].key == r.key && known[i].Length == r.Length {
			r.id = known[i].id
			next = append(next, r)
			continue
		}
		id, err := p.raw.Import(ctx, k.Key)
		if err != nil {
			full = full || errs.Is(err, errs.BufferOverflow)
			fail(err)
			continue
		}
		r.id = id
		next = append(next, r)
	}
	slices.SortFunc(next, func(a, b remote) int { return cmp.Compare(a.Addr, b.Addr) })
	end := uint64(0)
	next = slices.DeleteFunc(next, func(r remote) bool { // Of overlapping ranges, the first counts.
		overlaps := r.Addr < end
		if !overlaps {
			end = r.Addr + r.Length
		}
		return overlaps
	})
	p.Remotes.Store(&next)
	if without == 0 {
		return false, nil
	}
	if more := without - len(reasons); more > 0 {
		reasons = append(reasons, fmt.Errorf("and %d more", more))
	}
	return full, errs.Wrap(errs.TransferFail, "transport/"+p.Carrier.Name+": import", errors.Join(reasons...))
}

// Find returns the remote range that holds addr.
func (p *Path) Find(addr uint64) (remote, bool) {
	all := *p.Remotes.Load()
	i := sort.Search(len(all), func(i int) bool { return all[i].Addr+all[i].Length > addr })
	if i == len(all) || addr < all[i].Addr {
		return remote{}, false
	}
	return all[i], true
}
