package rdma

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Register implements transport.Transport. The memory is registered on every device at the
// same time; a failure of one withdraws it from all.
func (n *node) Register(_ context.Context, in transport.Region) (transport.Key, error) {
	const op = "transport/rdma: register"
	if err := n.begin(op); err != nil {
		return nil, err
	}
	defer n.traffic.Done()
	r, err := n.regions.reserve(&in)
	if err != nil {
		return nil, err
	}
	if r.chunk, err = n.chunkSize(uint64(len(in.Mem))); err == nil {
		n.touchPages(r)
		err = n.registerEverywhere(r, &in)
	}
	if err != nil {
		err = errors.Join(err, r.withdraw())
		n.regions.forget(r)
		return nil, errs.WithClass(errs.ClassOf(err), fmt.Sprintf("%s region %d (%d bytes)", op, in.ID, len(in.Mem)), err)
	}
	key, err := n.keyOf(r).Encode()
	if err != nil {
		err = errors.Join(err, r.withdraw())
		n.regions.forget(r)
		return nil, err
	}
	n.regions.activate(r)
	n.stats.regions.Add(1)
	return key, nil
}

// chunkSize returns the size of the pieces that a region of this size is registered in. All
// devices have the same.
func (n *node) chunkSize(size uint64) (uint64, error) {
	chunk := uint64(n.cfg.MaxMRSize)
	for _, d := range n.devices {
		if d.ctx != nil && d.attr.MaxMRSize > 0 {
			chunk = min(chunk, d.attr.MaxMRSize)
		}
	}
	const page = 4096
	if chunk > page {
		chunk -= chunk % page // Chunks share no page, whatever the limit.
	}
	if most := uint64(blob.MaxChunks(len(n.devices))); (size-1)/chunk >= most {
		return 0, errs.WithHint(errs.New(errs.InvalidParams, "", "%d bytes in pieces of %d are more than the %d that one key holds for %d devices",
			size, chunk, most, len(n.devices)), "register it as regions of at most %d bytes, or raise max_mr_size", most*chunk)
	}
	return min(chunk, size), nil
}

// registerEverywhere fills r.mrs. After an error it may be filled in part.
func (n *node) registerEverywhere(r *region, in *transport.Region) error {
	r.mrs = make([][]*verbs.MR, len(n.devices))
	failures := make([]error, len(n.devices))
	var wg sync.WaitGroup
	for i, d := range n.devices {
		if d.ctx == nil || d.lost.Load() {
			continue
		}
		wg.Go(func() { r.mrs[i], failures[i] = d.register(r, in) })
	}
	wg.Wait()
	return errors.Join(failures...)
}

// register makes the registrations of one device.
func (d *device) register(r *region, in *transport.Region) (mrs []*verbs.MR, err error) {
	access := verbs.AccessLocalWrite
	if in.Access&transport.AccessRemoteRead != 0 {
		access |= verbs.AccessRemoteRead
	}
	if in.Access&transport.AccessRemoteWrite != 0 {
		access |= verbs.AccessRemoteWrite
	}
	if d.n.cfg.RelaxedOrdering != 0 {
		access |= verbs.AccessRelaxedOrdering
	}
	dmabuf, err := d.n.dmabuf(in)
	if err != nil {
		return nil, err
	}
	for at := uint64(0); at < uint64(len(r.mem)); at += r.chunk {
		part := r.mem[at:min(at+r.chunk, uint64(len(r.mem)))]
		var mr *verbs.MR
		switch {
		case dmabuf:
			mr, err = d.pd.RegDMABuf(in.FD, uint64(in.FDOffset)+at, uint64(len(part)), r.start+at, access)
		case gpu(in.Location):
			mr, err = d.pd.RegRange(r.start+at, uint64(len(part)), access)
		default:
			mr, err = d.pd.RegMR(part, access)
		}
		if err != nil {
			return mrs, d.n.explainRegister(d, uint64(len(r.mem)), dmabuf, err)
		}
		mrs = append(mrs, mr)
	}
	return mrs, nil
}

// dmabuf decides how a region is registered.
func (n *node) dmabuf(in *transport.Region) (bool, error) {
	if !gpu(in.Location) || n.cfg.GPUMemory == gpuPeermem {
		return false, nil
	}
	if in.FD < 0 && n.cfg.GPUMemory == gpuDMABuf {
		return false, errs.WithHint(errs.New(errs.InvalidParams, "", "the memory is on %s and has no dma-buf descriptor", in.Location),
			"export one (cuMemGetHandleForAddressRange), or set gpu_memory to peermem and load nvidia_peermem")
	}
	return in.FD >= 0, nil
}

// gpu reports whether a location names the memory of another device than the processor:
// "cuda:0", but not "cpu:0", "*" or "segments:...".
func gpu(location string) bool {
	kind, _, ok := strings.Cut(location, ":")
	return ok && kind != "cpu" && kind != "segments"
}

// keyOf returns the key that peers get.
func (n *node) keyOf(r *region) *blob.Key {
	k := &blob.Key{
		Incarnation: n.incarnation, Region: uint64(r.id), Base: r.start, Length: uint64(len(r.mem)), Chunk: r.chunk,
		Access: r.access, Devices: len(n.devices),
	}
	for c := range k.Chunks() {
		for _, mrs := range r.mrs {
			if mrs == nil {
				k.RKeys = append(k.RKeys, 0)
			} else {
				k.RKeys = append(k.RKeys, mrs[c].RKey())
			}
		}
	}
	return k
}
