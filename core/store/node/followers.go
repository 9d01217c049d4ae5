package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// tellPause is how long a node collects batches before it tells a follower, so that a busy ledger costs few calls.
	tellPause = 50 * time.Millisecond
	// tellInterval is how often a follower hears of a ledger that does not change.
	tellInterval = time.Second
	// calm is how long after an attach a node begins to report a whole ledger to a follower: stores and masters are busy then.
	calm = 5 * time.Second
	// leastTellRetry and mostTellRetry bound the pause after a follower did not answer.
	leastTellRetry, mostTellRetry = 250 * time.Millisecond, 5 * time.Second
)

// setFollowers has the node tell the masters at these addresses, and no others. Only the goroutine that pulls calls it.
func (c *cell) setFollowers(ctx context.Context, addresses []string) {
	if c.deps.Followers == nil {
		return
	}
	for a, f := range c.followers {
		if !slices.Contains(addresses, a) {
			f.stop()
			delete(c.followers, a)
		}
	}
	for _, a := range addresses {
		if c.followers[a] != nil {
			continue
		}
		run, stop := context.WithCancel(ctx)
		f := &follower{news: make(chan struct{}, 1), stop: stop}
		c.followers[a] = f
		c.loop.Go(func() { c.tellFollower(run, a, f) })
	}
}

// changed tells the followers that ledgers have changed.
func (c *cell) changed() {
	for _, f := range c.followers {
		signal(f.news)
	}
}

// tellFollower tells one follower what the ledgers have, until ctx ends.
func (c *cell) tellFollower(ctx context.Context, address string, f *follower) {
	for pause := leastTellRetry; ctx.Err() == nil; pause = min(2*pause, mostTellRetry) {
		err := c.dialFollower(ctx, address, f)
		if ctx.Err() != nil {
			return
		}
		c.deps.Log.Debug("a master that follows the leader does not take what the ledgers have, trying on", "address", address, "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func (c *cell) dialFollower(ctx context.Context, address string, f *follower) (err error) {
	m, err := c.deps.Followers(address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	defer c.retire(f)
	for ctx.Err() == nil && err == nil {
		err = c.tell(ctx, m, f)
	}
	return err
}

// told is how far a follower knows a ledger.
type told struct {
	segment *segment
	fence   ledger.Epoch
	seq     ledger.Seq
}

// tell brings a follower up to date, and keeps it so until the ledgers are others or belong to another master.
func (c *cell) tell(ctx context.Context, m store.Follower, f *follower) error {
	known, err := c.introduce(ctx, m, f)
	if err != nil {
		return err
	}
	for {
		for i := range known {
			if err := c.tellTail(ctx, m, &known[i]); err != nil {
				return err
			}
		}
		select {
		case <-f.news:
			select { // More is likely to come.
			case <-time.After(tellPause):
			case <-ctx.Done():
				return nil
			}
		case <-time.After(tellInterval):
		case <-ctx.Done():
			return nil
		}
		if !c.stillKnown(known) {
			return nil
		}
	}
}

// introduce attaches the ledgers at a follower and passes what it lacks.
func (c *cell) introduce(ctx context.Context, m store.Follower, f *follower) ([]told, error) {
	var known []told
	var states []model.LedgerState
	for _, s := range c.attachedSegments() {
		l := c.stateOf(s)
		states = append(states, l)
		known = append(known, told{segment: s, fence: ledger.Epoch(l.Fence)})
	}
	keys := c.followerKeys(f, known, states)
	sent := c.clocks.now()
	got, err := m.Attach(ctx, c.session.ID(), states)
	if err != nil {
		return nil, err
	}
	keys.hear(sent, got.Clock)
	for i := range known {
		k, g := &known[i], got.Segments[i]
		k.seq = ledger.Seq(g.Since)
		if !g.Tail {
			if !c.awaitCalm(ctx) {
				return nil, ctx.Err()
			}
			if k.seq, err = c.report(ctx, m, k.segment, uint64(k.fence)); err != nil {
				return nil, err
			}
		}
	}
	return known, nil
}

// awaitCalm waits until the node has not attached for a while, which it does where another master has taken over, and reports
// false when ctx has ended. It does not wait after the first attach.
func (c *cell) awaitCalm(ctx context.Context) bool {
	for {
		left := time.Until(time.Unix(0, c.attachedAgain.Load()).Add(calm))
		if left <= 0 {
			return true
		}
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return false
		}
	}
}

// attachedSegments are those that a master writes.
func (c *cell) attachedSegments() []*segment {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.segments), func(s *segment) bool {
		return s.cell != c.index || !s.mounted || s.leaving || s.wiped || s.ledger.Fenced() == 0
	})
}

// stillKnown reports whether the ledgers are those that a follower knows.
func (c *cell) stillKnown(known []told) bool {
	return slices.EqualFunc(known, c.attachedSegments(), func(k told, s *segment) bool { return k.segment == s && k.fence == c.ledgerOf(s).Fenced() })
}

// tellTail passes the batches that a follower lacks, or all that the ledger has where it was rewritten since.
func (n *Node) tellTail(ctx context.Context, m store.Follower, k *told) error {
	seq, err := n.reportTail(ctx, m, k.segment, uint64(k.fence), k.seq)
	if errors.Is(err, ledger.ErrGap) {
		seq, err = n.report(ctx, m, k.segment, uint64(k.fence))
	}
	k.seq = seq
	return err
}

// reportTail passes the batches after one, and returns the number of the last. ErrGap where the ledger does not have them
// any more.
func (n *Node) reportTail(ctx context.Context, m reporter, s *segment, epoch uint64, after ledger.Seq) (ledger.Seq, error) {
	for last := n.ledgerOf(s).Seq(); ; {
		batches, seq, err := n.ledgerOf(s).Since(after, reportPiece)
		if err != nil {
			return after, err
		}
		r := model.LedgerReport{Segment: s.ID, Epoch: epoch, Batch: batches, Tail: true, Last: seq >= last, Seq: uint64(seq)}
		call, cancel := context.WithTimeout(ctx, n.cfg.RPCTimeout)
		err = m.Report(call, n.session.ID(), r)
		cancel()
		if err != nil {
			return after, errs.Wrap(errs.CodeOf(err), "store node: tell a follower", err)
		}
		if after = seq; r.Last {
			return after, nil
		}
	}
}
