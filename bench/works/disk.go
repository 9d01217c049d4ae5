package works

import (
	"context"

	"github.com/mooncake-go/mooncake/bench/peers"
	"github.com/mooncake-go/mooncake/bench/report"
	"github.com/mooncake-go/mooncake/bench/rounds"
)

// disk shows what the disk of this machine gives, the limit of pages that are kept there.
func disk(ctx context.Context, b *bench) error {
	fio := rounds.Contender{Name: peers.FioName, Measure: func(ctx context.Context) (rounds.Values, error) {
		put, err := b.Fio(ctx, b.env.Folder, true)
		if err != nil {
			return nil, err
		}
		get, err := b.Fio(ctx, b.env.Folder, false)
		return rounds.Values{"put": put, "get": get}, err
	}}
	ours := rounds.Absent(peers.OursName, "this project keeps no pages on a disk yet")
	p := pair{ours: peers.OursName, peer: peers.FioName}
	return b.compare(ctx, "disk", []rounds.Contender{ours, fio},
		p.of("disk put, blocks of 1 MiB", report.GBps, "put", 0),
		p.of("disk get, blocks of 1 MiB", report.GBps, "get", 0),
	)
}
