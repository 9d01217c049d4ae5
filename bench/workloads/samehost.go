package workloads

import (
	"context"
	"fmt"

	"github.com/mooncake-go/mooncake/bench/compare"
	"github.com/mooncake-go/mooncake/bench/competitors"
	"github.com/mooncake-go/mooncake/bench/drivers"
)

// Names of the members of samehost: through whose memory bytes go.
const (
	sharedGo     = "ours, shared memory"
	sharedPython = "ours, shared memory, Python"
	ownGo        = "ours, own segment"
	ownPython    = "ours, own segment, Python"
	memcpyName   = "memcpy"
)

// sameHost measures puts and gets that stay within a machine: through the memory of another
// process, and through a segment of the client itself, which is what upstream has.
func sameHost(ctx context.Context, b *bench) error {
	b.Step("starting pools and clients")
	members, err := b.oursOnOneHost(ctx)
	if err != nil {
		return err
	}
	var u *competitors.Driver
	m, err := b.UpstreamMaster(ctx, anyCPU)
	if err == nil {
		u, err = b.UpstreamPython(ctx, m, anyCPU, poolBytes)
	}
	members = append(members, joining(competitors.UpstreamName, competitors.SharedMemory, u, err).prepare(ctx, preparation()))
	mem, err := b.Memory(ctx)
	members = append(members, joining(memcpyName, competitors.SharedMemory, mem, err))

	threads := []int{1, 2, 4}
	for _, s := range hostShapes(b.Full) {
		for _, n := range threads {
			for _, do := range []string{drivers.Put, drivers.Get} {
				if err := b.compareHost(ctx, members, b.job(do, s, n), s); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// hostShapes leaves out, in a short run, what is mostly calls to the master.
func hostShapes(full bool) []shape {
	if full {
		return shapes()
	}
	return []shape{{64 << 10, 1}, {1 << 20, 1}, {16 << 20, 1}, {1 << 20, 16}}
}

// oursOnOneHost starts three pools: one whose memory lies in a store node, for a client in Go and
// one in Python, and one in each of two more clients.
func (b *bench) oursOnOneHost(ctx context.Context) ([]member, error) {
	m, err := b.OursMaster(ctx, anyCPU)
	if err != nil {
		return nil, err
	}
	if err := b.OursStore(ctx, m, competitors.SharedMemory, poolBytes); err != nil {
		return nil, err
	}
	var members []member
	g, err := b.OursGo(ctx, m, competitors.SharedMemory, 0)
	members = append(members, joining(sharedGo, competitors.SharedMemory, g, err).prepare(ctx, preparation()))
	p, err := b.OursPython(ctx, m, competitors.SharedMemory, anyCPU, 0)
	members = append(members, joining(sharedPython, competitors.SharedMemory, p, err))

	if m, err = b.OursMaster(ctx, anyCPU); err != nil {
		return nil, err
	}
	g, err = b.OursGo(ctx, m, competitors.SharedMemory, poolBytes)
	members = append(members, joining(ownGo, competitors.SharedMemory, g, err).prepare(ctx, preparation()))
	if m, err = b.OursMaster(ctx, anyCPU); err != nil {
		return nil, err
	}
	p, err = b.OursPython(ctx, m, competitors.SharedMemory, anyCPU, poolBytes)
	return append(members, joining(ownPython, competitors.SharedMemory, p, err).prepare(ctx, preparation())), nil
}

func (b *bench) compareHost(ctx context.Context, members []member, j drivers.Job, s shape) error {
	what := fmt.Sprintf("same host %s %s, %s", j.Do, s, threadsName(j.Threads))
	contenders := make([]compare.Contender, len(members))
	for i, m := range members {
		contenders[i] = m.moves(j)
	}
	var pairs []pair
	for _, ours := range []string{sharedGo, sharedPython, ownGo, ownPython} {
		for _, peer := range []string{memcpyName, competitors.UpstreamName} {
			p := pair{ours: ours, peer: peer}
			pairs = append(pairs, p.of(what+" ("+ours+")", compare.GBps, rate, hostGoal(peer, s, j.Threads)))
		}
	}
	return b.compare(ctx, what, contenders, pairs...)
}

// hostGoal is ahead of upstream, which computes no checksums: clearly so from 1 MiB on. For large objects it is also nearly
// a copy of memory by one thread.
func hostGoal(peer string, s shape, threads int) float64 {
	switch {
	case peer == memcpyName && threads == 1 && s.size*s.count >= 16<<20:
		return 0.9
	case peer == competitors.UpstreamName && s.size >= 1<<20:
		return 1.5
	case peer == competitors.UpstreamName && s.size == 64<<10:
		return 1
	}
	return 0
}
