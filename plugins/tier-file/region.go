package file

import (
	"context"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// find returns the index of the first region that ends behind an address.
func (rs regions) find(at uintptr) int {
	i, _ := slices.BinarySearchFunc(rs, at, func(r *region, at uintptr) int {
		if r.end <= at {
			return -1
		}
		return 1
	})
	return i
}

// of returns the open region that a part lies in, or nil.
func (rs regions) of(part []byte) *region {
	at := address(part)
	i := rs.find(at)
	if i == len(rs) || at < rs[i].base || uintptr(len(part)) > rs[i].end-at || rs[i].closing {
		return nil
	}
	return rs[i]
}

// onHugePages reports whether a descriptor is of a file on huge pages.
func onHugePages(fd int) bool {
	var s unix.Statfs_t
	return fd >= 0 && unix.Fstatfs(fd, &s) == nil && s.Type == unix.HUGETLBFS_MAGIC
}

// Register implements tier.Tier.
func (t *fileTier) Register(_ context.Context, r tier.Region) error {
	const op = "tier/file: register"
	huge := onHugePages(r.FD)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != running {
		return errNotRunning(op)
	}
	if r.ID == 0 || len(r.Mem) == 0 {
		return errs.New(errs.InvalidParams, op, "region %d has %d bytes; the number and the size must not be 0", r.ID, len(r.Mem))
	}
	if t.region(r.ID) != nil {
		return errs.New(errs.InvalidParams, op, "region %d exists already; deregister it first or use another number", r.ID)
	}
	n := &region{id: r.ID, base: address(r.Mem), mem: r.Mem, huge: huge}
	n.end = n.base + uintptr(len(r.Mem))
	i := t.regions.find(n.base)
	if i < len(t.regions) && t.regions[i].base < n.end {
		return errs.New(errs.InvalidParams, op, "region %d overlaps region %d", r.ID, t.regions[i].id)
	}
	t.regions = slices.Insert(t.regions, i, n)
	return nil
}

func (t *fileTier) region(id tier.RegionID) *region {
	for _, r := range t.regions {
		if r.id == id {
			return r
		}
	}
	return nil
}

// Deregister implements tier.Tier. A later call for a region that is still in use waits again.
func (t *fileTier) Deregister(ctx context.Context, id tier.RegionID) error {
	const op = "tier/file: deregister"
	t.mu.Lock()
	if t.state != running && t.state != stopping {
		t.mu.Unlock()
		return errNotRunning(op)
	}
	r := t.region(id)
	if r == nil {
		t.mu.Unlock()
		return errs.New(errs.InvalidParams, op, "region %d is unknown; it was deregistered or never registered", id)
	}
	if !r.closing {
		r.closing, r.idle = true, make(chan struct{})
		if r.users == 0 {
			close(r.idle)
		}
	}
	t.mu.Unlock()
	select {
	case <-r.idle:
	case <-ctx.Done():
		select {
		case <-r.idle:
		default:
			return errBusyRegion(id, ctx.Err())
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.regions = slices.DeleteFunc(t.regions, func(o *region) bool { return o == r })
	return nil
}

func errBusyRegion(id tier.RegionID, why error) error {
	return errs.WithHint(errs.Wrap(errs.RPCTimeout, "tier/file: deregister", why),
		"operations still use region %d, so its memory must not be reused yet; call again", id)
}

// unpin ends the use of regions by an operation.
func (t *fileTier) unpin(rs []*region) {
	for _, r := range rs {
		r.users--
		if r.closing && r.users == 0 {
			close(r.idle)
		}
	}
}
