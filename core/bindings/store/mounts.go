package store

import (
	"context"
	"errors"
	"math"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// mounts is the memory that programs got from a store, and that is freed with the store.
type mounts struct {
	mu   sync.Mutex
	free []func() error
}

func (m *mounts) add(free func() error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free = append(m.free, free)
}

// end frees the memory. No transfer accesses it any more.
func (m *mounts) end() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var failed error
	for _, free := range m.free {
		failed = errors.Join(failed, free())
	}
	m.free = nil
	return failed
}

// segmentText returns the IDs of segments as text.
func segmentText(ids []model.SegmentID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id.String()
	}
	return out
}

func mountFile(ctx context.Context, o *opened, a struct {
	Path     string `json:"path"`
	Size     uint64 `json:"size"`
	Offset   uint64 `json:"offset"`
	Protocol string `json:"protocol"`
	Location string `json:"location"`
}) (fields, error) {
	m, unmap, err := mapFile(a.Path, a.Offset, a.Size)
	if err != nil {
		return nil, err
	}
	ids, err := o.node.Node.MountSegment(ctx, node.MountOptions{Memory: m, Freed: unmap, Protocol: a.Protocol, Location: a.Location})
	return fields{"segment_ids": segmentText(ids)}, err
}

// mapFile maps size bytes of a file, shared with other processes that map it. The file must not be
// truncated while it is mapped.
func mapFile(path string, offset, size uint64) (m transfer.Memory, unmap func(), err error) {
	const op = "mount segment"
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return m, nil, errs.Wrap(errs.FileOpenFail, op, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errs.New(errs.InvalidParams, op, "%s is not a regular file", path)
	case size == 0 || offset%uint64(os.Getpagesize()) != 0:
		err = errs.New(errs.InvalidParams, op, "%d bytes at offset %d cannot be mapped: the size must be above 0, the offset whole pages", size, offset)
	case offset > uint64(info.Size()) || size > uint64(info.Size())-offset:
		err = errs.New(errs.InvalidParams, op, "%s has %d bytes, %d at offset %d go beyond", path, info.Size(), size, offset)
	}
	if err != nil {
		return m, nil, errors.Join(err, f.Close())
	}
	mem, err := unix.Mmap(int(f.Fd()), int64(offset), int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return m, nil, errors.Join(errs.Wrap(errs.Internal, op+": map "+path, err), f.Close())
	}
	return transfer.Memory{Bytes: mem, FD: int(f.Fd()), FDOffset: int64(offset)}, func() {
		_ = unix.Munmap(mem) // It cannot fail: mem is this mapping.
		_ = f.Close()
	}, nil
}

func mountFresh(ctx context.Context, o *opened, a struct {
	Size     uint64 `json:"size"`
	Protocol string `json:"protocol"`
	Location string `json:"location"`
}) (fields, error) {
	ids, err := o.node.Node.MountSegment(ctx, node.MountOptions{Size: a.Size, Protocol: a.Protocol, Location: a.Location})
	if err != nil {
		return fields{"segment_ids": segmentText(ids)}, err
	}
	return fields{"segment_ids": segmentText(ids), "allocated_size": a.Size}, nil
}

func unmount(ctx context.Context, o *opened, a struct {
	IDs   []string `json:"segment_ids"`
	Grace uint64   `json:"grace_period_seconds"`
}) (fields, error) {
	grace, err := graceOf("unmount segment", a.Grace)
	if err != nil {
		return nil, err
	}
	ids := make([]model.SegmentID, len(a.IDs))
	for i, text := range a.IDs {
		id, err := model.ParseUUID(text)
		if err != nil {
			return nil, errs.Wrap(errs.InvalidParams, "unmount segment", err)
		}
		ids[i] = id
	}
	return nil, o.node.Node.UnmountSegments(ctx, ids, grace)
}

// unmountTiers fails with Internal, which is -1, the only error that upstream's method has.
func unmountTiers(ctx context.Context, o *opened, a struct {
	Grace uint64 `json:"grace_period_seconds"`
}) (fields, error) {
	grace, err := graceOf("unmount local disk segment", a.Grace)
	if err == nil {
		err = o.node.Node.UnmountTiers(ctx, grace)
	}
	return nil, errs.Wrap(errs.Internal, "", err)
}

func countStageCalls(_ context.Context, o *opened, _ none) (fields, error) {
	count := uint64(0)
	if o.node != nil {
		count = o.node.Client.StageCalls()
	}
	return fields{"count": count}, nil
}

// graceOf converts seconds.
func graceOf(op string, seconds uint64) (time.Duration, error) {
	if seconds > uint64(math.MaxInt64/int64(time.Second)) {
		return 0, errs.New(errs.InvalidParams, op, "a grace of %d s is longer than there is time", seconds)
	}
	return time.Duration(seconds) * time.Second, nil
}

// allocate returns memory that is registered until the store closes.
func (s *Store) allocate(ctx context.Context, o *opened, a struct {
	Size uint64 `json:"size"`
}) (fields, error) {
	mem, free, err := s.fresh(o, a.Size)
	if err != nil {
		return nil, err
	}
	if err := o.pool.RegisterBuffer(ctx, mem, ""); err != nil {
		return nil, errors.Join(err, free())
	}
	o.mounted.add(free)
	addr := memory.AddrOf(mem)
	o.registered.add(region{addr: addr, size: a.Size, own: true})
	return fields{"address": addr}, nil
}

func (s *Store) fresh(o *opened, size uint64) (mem []byte, free func() error, err error) {
	if o.node == nil && s.opts.Memory != nil {
		a, err := s.opts.Memory.allocator()
		if err != nil {
			return nil, nil, err
		}
		mem, err = a.Alloc(size)
		return mem, func() error { return a.Free(mem) }, err
	}
	b, err := memory.Allocate(size, memory.Options{Name: "mooncake-pool", Promise: true})
	if err != nil {
		return nil, nil, err
	}
	return b.Bytes()[:size], b.Close, nil
}
