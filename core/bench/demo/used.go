package demo

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/bench/report"
)

// askTime bounds the questions to all processes of the pool.
const askTime = 10 * time.Second

// plugins asks the master and the stores what they have in use. One that does not say is
// left out: the report is about the load.
func (p *pool) plugins(ctx context.Context) []report.Plugin {
	if p.opts.Ask == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var out []report.Plugin
	for _, proc := range append([]*cluster.Proc{p.master}, p.stores...) {
		used, err := p.opts.Ask(ctx, proc.PID())
		if err != nil {
			continue
		}
		for _, in := range used {
			out = append(out, report.Plugin{Where: proc.Name, Instance: in})
		}
	}
	return out
}
