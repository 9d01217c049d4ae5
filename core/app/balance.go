package app

import (
	"context"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/campaign"
)

const (
	// balanceInterval is how often a master looks whether another one should rather lead one of its cells.
	balanceInterval = 250 * time.Millisecond
	// settled is how long the masters that run have to be the same before cells move: several may be starting.
	settled = 2 * time.Second
	// moveTimeout is how long a cell that is handed over may be without a leader before the next one moves.
	moveTimeout = 5 * time.Second
)

// balance hands cells over to masters that should rather lead them, one after the other, and each only to a master that knows what
// this one has written.
func (c *celled) balance(ctx context.Context) {
	t := time.NewTicker(balanceInterval)
	defer t.Stop()
	var running []string
	since := time.Now()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		members := c.members.Load()
		if members == nil {
			continue
		}
		var names []string
		for _, m := range *members {
			names = append(names, m.Name)
		}
		if !slices.Equal(names, running) {
			running, since = names, time.Now()
		}
		if time.Since(since) < settled {
			continue
		}
		for i := range c.cells {
			if to := c.rather(i, names, *members); to != "" {
				c.move(ctx, i, to)
				break
			}
		}
	}
}

// rather returns the master that should rather lead a cell than this one, which leads it, and that knows all of it; "" for none.
// A cell with segments that have no ledger does not move, because their objects would be lost.
func (c *celled) rather(cell int, names []string, members []ha.Member) string {
	e := c.cells[cell]
	s := e.campaign.Status()
	first := cells.Order(names, cell, len(c.cells))
	if s.State != campaign.Serving || len(first) == 0 || first[0] == c.name() {
		return ""
	}
	at := slices.IndexFunc(members, func(m ha.Member) bool { return m.Name == first[0] })
	if cell >= len(members[at].Cells) {
		return ""
	}
	knows := members[at].Cells[cell]
	segments, whole := e.current.Load().service.Led()
	if knows.Follows != s.View.Version || knows.Segments < segments || !whole {
		return ""
	}
	return first[0]
}

// move hands a cell over, and returns when another master leads it.
func (c *celled) move(ctx context.Context, cell int, to string) {
	e := c.cells[cell]
	own := e.campaign.Status().View
	e.log.Info("this cell is handed over to a master that should rather lead it", "to", to)
	e.campaign.Yield()
	t := time.NewTicker(balanceInterval / 10)
	defer t.Stop()
	for over := time.After(moveTimeout); ; {
		select {
		case <-t.C:
			if v := e.campaign.Status().View; v.Led() && v != own {
				return
			}
		case <-over:
			e.log.Warn("no master leads a cell that was handed over", "to", to)
			return
		case <-ctx.Done():
			return
		}
	}
}
