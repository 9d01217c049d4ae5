package memory

import (
	"errors"
	"fmt"
	"sync"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/config"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Register registers memory on every device at the same time, and returns the key for peers. A
// failure of one device withdraws the memory from all.
func (g *Registry) Register(in transport.Region) (transport.Key, error) {
	const op = "transport/rdma: register"
	r, err := g.reserve(&in)
	if err != nil {
		return nil, err
	}
	if r.chunk, err = g.chunkSize(uint64(len(in.Mem))); err == nil {
		g.touchPages(r)
		err = g.registerEverywhere(r, &in)
	}
	var key transport.Key
	if err == nil {
		key, err = g.keyOf(r).Encode()
	}
	if err != nil {
		err = errors.Join(err, r.withdraw())
		g.forget(r)
		return nil, errs.WithClass(errs.ClassOf(err), fmt.Sprintf("%s region %d (%d bytes)", op, in.ID, len(in.Mem)), err)
	}
	r.state.Store(usable)
	return key, nil
}

// chunkSize returns the size of the chunks in which a region of this size is registered. All
// devices have the same.
func (g *Registry) chunkSize(size uint64) (uint64, error) {
	chunk := uint64(g.env.Config.MaxMRSize)
	for _, d := range g.devices {
		if d.Opened() && d.Attr.MaxMRSize > 0 {
			chunk = min(chunk, d.Attr.MaxMRSize)
		}
	}
	const page = 4096
	if chunk > page {
		chunk -= chunk % page // Chunks share no page, whatever the limit.
	}
	if most := uint64(blob.MaxChunks(len(g.devices))); (size-1)/chunk >= most {
		return 0, errs.WithHint(errs.New(errs.InvalidParams, "", "%d bytes in chunks of %d are more than the %d that one key holds for %d devices",
			size, chunk, most, len(g.devices)), "register it as regions of at most %d bytes, or raise max_mr_size", most*chunk)
	}
	return min(chunk, size), nil
}

// registerEverywhere fills r.MRs. After an error it may be filled in part.
func (g *Registry) registerEverywhere(r *Region, in *transport.Region) error {
	r.MRs = make([][]*verbs.MR, len(g.devices))
	failures := make([]error, len(g.devices))
	var wg sync.WaitGroup
	for i, d := range g.devices {
		if !d.Opened() || d.Lost.Load() {
			continue
		}
		wg.Go(func() { r.MRs[i], failures[i] = g.registerOn(d, r, in) })
	}
	wg.Wait()
	return errors.Join(failures...)
}

// registerOn makes the registrations of one device.
func (g *Registry) registerOn(d *device.Device, r *Region, in *transport.Region) (mrs []*verbs.MR, err error) {
	access := verbs.AccessLocalWrite
	if in.Access&transport.AccessRemoteRead != 0 {
		access |= verbs.AccessRemoteRead
	}
	if in.Access&transport.AccessRemoteWrite != 0 {
		access |= verbs.AccessRemoteWrite
	}
	if g.env.Config.RelaxedOrdering != 0 {
		access |= verbs.AccessRelaxedOrdering
	}
	dmabuf, err := g.dmabuf(in)
	if err != nil {
		return nil, err
	}
	for at := uint64(0); at < uint64(len(r.mem)); at += r.chunk {
		chunk := r.mem[at:min(at+r.chunk, uint64(len(r.mem)))]
		var mr *verbs.MR
		switch {
		case dmabuf:
			mr, err = d.PD.RegDMABuf(in.FD, uint64(in.FDOffset)+at, uint64(len(chunk)), r.Start+at, access)
		case OnGPU(in.Location):
			mr, err = d.PD.RegRange(r.Start+at, uint64(len(chunk)), access)
		default:
			mr, err = d.PD.RegMR(chunk, access)
		}
		if err != nil {
			return mrs, g.explain(d, uint64(len(r.mem)), dmabuf, err)
		}
		mrs = append(mrs, mr)
	}
	return mrs, nil
}

// dmabuf decides how a region is registered.
func (g *Registry) dmabuf(in *transport.Region) (bool, error) {
	if !OnGPU(in.Location) || g.env.Config.GPUMemory == config.GPUPeermem {
		return false, nil
	}
	if in.FD < 0 && g.env.Config.GPUMemory == config.GPUDMABuf {
		return false, errs.WithHint(errs.New(errs.InvalidParams, "", "the memory is on %s and has no dma-buf descriptor", in.Location),
			"export one (cuMemGetHandleForAddressRange), or set gpu_memory to peermem and load nvidia_peermem")
	}
	return in.FD >= 0, nil
}

// keyOf returns the key that peers get.
func (g *Registry) keyOf(r *Region) *blob.Key {
	k := &blob.Key{
		Incarnation: g.env.Incarnation, Region: uint64(r.ID), Base: r.Start, Length: uint64(len(r.mem)), Chunk: r.chunk,
		Access: r.Access, Devices: len(g.devices),
	}
	for c := range k.Chunks() {
		for _, mrs := range r.MRs {
			if mrs == nil {
				k.RKeys = append(k.RKeys, 0)
			} else {
				k.RKeys = append(k.RKeys, mrs[c].RKey())
			}
		}
	}
	return k
}
