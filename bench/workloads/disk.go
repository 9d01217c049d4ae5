package workloads

import (
	"context"

	"github.com/mooncake-go/mooncake/bench/compare"
	"github.com/mooncake-go/mooncake/bench/competitors"
)

// disk shows what the disk of this machine gives, the limit of pages that are kept there.
func disk(ctx context.Context, b *bench) error {
	fio := compare.Contender{Name: competitors.FioName, Measure: func(ctx context.Context) (compare.Values, error) {
		put, err := b.Fio(ctx, b.env.Folder, true)
		if err != nil {
			return nil, err
		}
		get, err := b.Fio(ctx, b.env.Folder, false)
		return compare.Values{"put": put, "get": get}, err
	}}
	ours := compare.Unavailable(competitors.OursName, "this project keeps no pages on a disk yet")
	p := pair{ours: competitors.OursName, peer: competitors.FioName}
	return b.compare(ctx, "disk", []compare.Contender{ours, fio},
		p.of("disk put, blocks of 1 MiB", compare.GBps, "put", 0),
		p.of("disk get, blocks of 1 MiB", compare.GBps, "get", 0),
	)
}
