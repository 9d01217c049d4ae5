package workloads

import (
	"context"

	"github.com/mooncake-go/mooncake/bench/compare"
	"github.com/mooncake-go/mooncake/bench/competitors"
	"github.com/mooncake-go/mooncake/bench/drivers"
)

const (
	// offloadPool is the memory of a pool that keeps more on a disk: offloadKeys objects of 1 MiB in each round.
	offloadPool = 256 << 20
	offloadKeys = 768
	// offloadSeconds is how long they may take until all are on the disk.
	offloadSeconds = 120
)

// disk has pools save more than their memory holds, and read what has left it. fio shows what the disk gives.
func disk(ctx context.Context, b *bench) error {
	b.Step("starting pools with disks")
	ours, err := b.OursOffloading(ctx, b.env.Folder, offloadPool)
	inPython := joining(competitors.OursPython, competitors.TCP, ours, err)
	theirs, err := b.UpstreamOffloading(ctx, b.env.Folder, offloadPool)
	upstream := joining(competitors.UpstreamName, competitors.TCP, theirs, err)
	fio := compare.Contender{Name: competitors.FioName, Measure: func(ctx context.Context) (compare.Values, error) {
		save, saveCPU, err := b.Fio(ctx, b.env.Folder, true)
		if err != nil {
			return nil, err
		}
		cold, coldCPU, err := b.Fio(ctx, b.env.Folder, false)
		return compare.Values{"save": save, "cold": cold, cpuMeasure("save"): saveCPU, cpuMeasure("cold"): coldCPU}, err
	}}
	peer, limit := pair{ours: competitors.OursPython, peer: competitors.UpstreamName}, pair{ours: competitors.OursPython, peer: competitors.FioName}
	const save, cold = "disk save, objects of 1 MiB", "disk get, 16 x 1 MiB"
	return b.compare(ctx, "disk", []compare.Contender{inPython.offloads(), upstream.offloads(), fio},
		peer.of(save, compare.GBps, "save", 3), peer.of(cold, compare.GBps, "cold", 2),
		limit.of(save, compare.GBps, "save", 0), limit.of(cold, compare.GBps, "cold", 0),
	)
}

// offloads is a contender that saves to a disk and reads from it, in GB/s.
func (m member) offloads() compare.Contender {
	j := drivers.Job{Do: drivers.Offload, Size: 1 << 20, Count: 16, Keys: offloadKeys, Seconds: offloadSeconds}
	return m.does(j, func(a drivers.Answer) (compare.Values, error) {
		v := compare.Values{}
		for _, name := range []string{"save", "cold"} {
			v[name], v[cpuMeasure(name)] = a.Phases[name].Per(j.Size)/1e9, cpuPerGB(a.Phases[name], j.Size)
		}
		return v, nil
	})
}
