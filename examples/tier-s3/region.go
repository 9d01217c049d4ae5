package s3

import (
	"context"
	"unsafe"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// region is registered memory.
type region struct {
	tier.Region
	users  int  // parts of operations that may still touch it
	closed bool // to new operations
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func (r *region) end() uintptr { return address(r.Mem) + uintptr(len(r.Mem)) }

// Register implements tier.Tier.
func (n *node) Register(ctx context.Context, r tier.Region) error {
	const op = "tier/s3: register"
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.alive(ctx, "register"); err != nil {
		return err
	}
	if r.ID == 0 || len(r.Mem) == 0 || n.regions[r.ID] != nil {
		return errs.New(errs.InvalidParams, op, "region %d of %d bytes: the ID must be new and not 0, and there must be bytes", r.ID, len(r.Mem))
	}
	x := &region{Region: r}
	for _, o := range n.regions {
		if address(x.Mem) < o.end() && address(o.Mem) < x.end() {
			return errs.New(errs.InvalidParams, op, "region %d overlaps region %d", r.ID, o.ID)
		}
	}
	n.regions[r.ID] = x
	return nil
}

// Deregister implements tier.Tier.
func (n *node) Deregister(ctx context.Context, id tier.RegionID) error {
	const op = "tier/s3: deregister"
	for {
		n.mu.Lock()
		err := n.alive(context.Background(), "deregister")
		r := n.regions[id]
		if err == nil && r == nil {
			err = errs.New(errs.InvalidParams, op, "region %d is not registered", id)
		}
		if err != nil {
			n.mu.Unlock()
			return err
		}
		r.closed = true
		if r.users == 0 {
			delete(n.regions, id)
			n.mu.Unlock()
			return nil
		}
		news := n.news
		n.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return errs.WithHint(errs.Wrap(errs.RPCTimeout, op, ctx.Err()), "the memory of region %d must not be reused yet; call again", id)
		}
	}
}

// regionOf returns the region in which memory lies, nil without one. The caller holds mu.
func (n *node) regionOf(b []byte) *region {
	for _, r := range n.regions {
		if !r.closed && address(b) >= address(r.Mem) && address(b)+uintptr(len(b)) <= r.end() {
			return r
		}
	}
	return nil
}
