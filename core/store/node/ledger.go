package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// reportPiece is the size of the pieces of a report, in bytes.
	reportPiece = 256 << 10
	// leastPullPause and mostPullPause bound the pause after a pull that failed.
	leastPullPause, mostPullPause = 50 * time.Millisecond, 250 * time.Millisecond
	// lateGrace is how long the node waits for bytes that are on their way when a put has ended whose writer did not wait for
	// them. It is less than the time for which the master waits.
	lateGrace = 500 * time.Millisecond
	// giveUpTimeout bounds the call that removes objects whose bytes did not come, and is part of that time.
	giveUpTimeout = 300 * time.Millisecond
	// strayGrace is how long a write into memory of a put that is gone may go on before it is cut.
	strayGrace = 100 * time.Millisecond
	// strayTimeout bounds the wait for such writes, and tierPatience that for a tier to forget, before the node goes on without
	// the acknowledgement. Batches for memory wait meanwhile.
	strayTimeout, tierPatience = time.Second, 100 * time.Millisecond
)

// mount makes segments known to the master: with their ledgers, or without where the master keeps none.
func (c *cell) mount(ctx context.Context, segments []*segment) error {
	if err := c.mounting.Acquire(ctx, 1); err != nil {
		return errs.Wrap(errs.RPCTimeout, "wait for another mount of this node", err)
	}
	defer c.mounting.Release(1)
	all, err := c.attachable(ctx) // All of them: a master that has forgotten the node forgot the others, too.
	if err != nil {
		return err
	}
	c.mu.Lock()
	for _, s := range all {
		s.mounted = true // Also when the answer is lost.
	}
	c.mu.Unlock()
	err = c.attach(ctx, all)
	if !errs.Is(err, errs.NotSupported) {
		return err
	}
	if !c.plain.Swap(true) {
		c.deps.Log.Warn("this master keeps no ledgers: after it restarts, what lies here is lost", "error", err)
	}
	for _, s := range all {
		c.disown(s, err)
		s.guard.Enforce(false)
	}
	return c.mountEach(ctx, segments)
}

// attach attaches the ledgers of segments and reports what they have.
func (c *cell) attach(ctx context.Context, segments []*segment) error {
	t0 := time.Now()
	states := make([]model.LedgerState, len(segments))
	for i, s := range segments {
		states[i] = c.stateOf(s)
	}
	keys := c.give(segments, states, true)
	sent := c.clocks.now()
	got, err := c.master.Attach(ctx, c.session.ID(), states)
	c.session.Record("Attach", t0)
	if err != nil {
		return err
	}
	keys.hear(sent, got.Clock)
	for i, s := range segments {
		g := got.Segments[i]
		if _, err := c.ledgerOf(s).Fence(ledger.Epoch(g.Epoch), got.Lease); err != nil {
			return errs.Wrap(errs.Internal, "store node: attach", err)
		}
		s.guard.Enforce(true)
		keys.lead(s, got.Write)
		if g.Resume {
			continue
		}
		if err := c.settle(ctx, s); err != nil { // What the report does not have is free.
			return err
		}
		if err := c.reportTo(ctx, s, g); err != nil {
			if errs.Is(err, errs.ChecksumMismatch) {
				c.wipe(s, err)
			}
			return err
		}
		c.mu.Lock()
		s.wiped = false
		c.mu.Unlock()
	}
	if c.joined.Load() {
		c.attachedAgain.Store(time.Now().UnixNano())
	}
	signal(c.attached)
	return nil
}

func (n *Node) ledgerOf(s *segment) *ledger.Log {
	n.mu.Lock()
	defer n.mu.Unlock()
	return s.ledger
}

func (n *Node) stateOf(s *segment) model.LedgerState {
	n.mu.Lock()
	defer n.mu.Unlock()
	keeper, largest := "", uint64(0)
	if s.kept {
		keeper = n.cfg.Kept.String()
	}
	if s.tier != nil {
		largest = min(s.tier.disk.Volume().MaxRecord, n.cfg.Tiers.Staging)
	}
	return model.LedgerState{
		Keeper: keeper, Largest: largest, Segment: s.Segment, Fence: uint64(s.ledger.Fenced()), Seq: uint64(s.ledger.Seq()), Lease: s.ledger.Lease(), Wiped: s.wiped, Puts: uint64(s.ledger.Len()), Layout: ledger.Layout,
	}
}

// reportTo reports what the master does not know of a ledger.
func (c *cell) reportTo(ctx context.Context, s *segment, g model.LedgerGrant) error {
	l, seq, err := c.ledgerOf(s), ledger.Seq(g.Since), ledger.ErrGap
	if g.Tail {
		seq, err = c.reportTail(ctx, c.master, s, g.Epoch, seq)
	}
	if errors.Is(err, ledger.ErrGap) {
		seq, err = c.report(ctx, c.master, s, g.Epoch)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.ledger == l {
		s.acked = max(s.acked, seq)
	}
	return nil
}

// reporter is what takes reports: the master, or a follower.
type reporter interface {
	Report(ctx context.Context, client model.ClientID, report model.LedgerReport) error
}

// report passes what a ledger has, and returns the number of the last batch. It encodes the whole of it first, so that a slow
// master does not hold the ledger up.
func (n *Node) report(ctx context.Context, m reporter, s *segment, epoch uint64) (ledger.Seq, error) {
	defer n.session.Record("Report", time.Now())
	var pieces [][]byte
	seq, err := n.ledgerOf(s).Snapshot(reportPiece, func(batch []byte) error {
		pieces = append(pieces, append([]byte(nil), batch...))
		return nil
	})
	if err != nil {
		n.wipe(s, err)
		return 0, errs.Wrap(errs.Internal, "store node: report", err)
	}
	if len(pieces) == 0 {
		pieces = [][]byte{nil}
	}
	for i, p := range pieces {
		r := model.LedgerReport{Segment: s.ID, Epoch: epoch, Index: uint32(i), Batch: p}
		if i == len(pieces)-1 {
			r.Last, r.Seq = true, uint64(seq)
		}
		call, cancel := context.WithTimeout(ctx, n.cfg.RPCTimeout)
		err := m.Report(call, n.session.ID(), r)
		cancel()
		if err != nil {
			return 0, err
		}
	}
	return seq, nil
}

// wipe empties a ledger that the master or the node cannot read. What lies in the segment is lost, and the segment is
// kept no longer: the next process could not tell that its ledger is incomplete.
func (n *Node) wipe(s *segment, cause error) {
	n.forget(n.run, []*segment{s})
	fresh, err := ledger.Create(&pages{}, n.ledgerOf(s).Identity())
	if err == nil {
		old := n.ledgerOf(s)
		_, err = fresh.Fence(old.Fenced(), old.Lease())
	}
	if err != nil {
		n.deps.Log.Error("a ledger cannot be made anew", "segment", s.ID.String(), "error", errors.Join(cause, err))
		return
	}
	n.deps.Log.Error("the objects of a segment are lost: its ledger cannot be used", "segment", s.ID.String(), "error", cause)
	fresh.SetGuard(&s.guard.Guard)
	n.mu.Lock()
	s.ledger, s.acked, s.wiped = fresh, 0, true
	n.mu.Unlock()
	if s.tier == nil {
		n.saves.watch(s)
		return
	}
	s.tier.disk.Follow(fresh)
	if err := os.Remove(s.tier.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.deps.Log.Error("the ledger of a storage tier is not removed", "file", s.tier.file, "error", err)
	}
}

// disown empties the ledger of a segment that a master without ledgers is about to use: what it says would be wrong.
func (n *Node) disown(s *segment, cause error) {
	if l := n.ledgerOf(s); l.Len() > 0 {
		n.wipe(s, cause)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	s.wiped = true
}

// follow applies what the master writes into the ledgers, until the context ends.
func (c *cell) follow(ctx context.Context) {
	for pause, round := leastPullPause, uint64(0); ctx.Err() == nil; {
		if len(c.acks()) == 0 {
			select {
			case <-c.attached:
				continue
			case <-ctx.Done():
				return
			}
		}
		got, err := c.master.Pull(ctx, c.session.ID(), round, c.acks())
		if err == nil {
			pause, round = leastPullPause, got.Round
			c.apply(ctx, got.Batches)
			c.setFollowers(ctx, got.Followers)
			if len(got.Batches) > 0 {
				c.changed()
			}
			continue
		}
		round = 0
		if errs.Is(err, errs.UnavailableInCurrentStatus) && !session.Unanswered(err) && c.joined.Load() {
			c.requestMount()
		}
		select {
		case <-c.attached: // The master lets readers rely on this node once it has pulled.
			pause = leastPullPause
		case <-time.After(pause):
			pause = min(2*pause, mostPullPause)
		case <-ctx.Done():
			return
		}
	}
}

// acks says how far the ledgers of the mounted segments have come.
func (c *cell) acks() []model.LedgerAck {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []model.LedgerAck
	for _, s := range c.segments {
		if epoch := s.ledger.Fenced(); s.cell == c.index && s.mounted && epoch != 0 {
			out = append(out, model.LedgerAck{Segment: s.ID, Epoch: uint64(epoch), Seq: uint64(s.acked)})
		}
	}
	return out
}

// apply applies batches. Those of a master that a later one has deposed are refused by the ledger.
func (c *cell) apply(ctx context.Context, batches []model.LedgerBatch) {
	type applied struct {
		log *ledger.Log
		seq ledger.Seq
	}
	last := map[*segment]applied{}
	for _, b := range batches {
		s := c.segmentOf(b.Segment)
		if s == nil {
			continue
		}
		l := c.ledgerOf(s)
		seq, err := l.Append(b.Bytes)
		switch {
		case err == nil:
			last[s] = applied{l, seq}
		case errors.Is(err, ledger.ErrFenced), errors.Is(err, ledger.ErrGap):
			c.deps.Log.Warn("a batch for a ledger is refused", "segment", s.ID.String(), "error", err)
		default:
			c.wipe(s, fmt.Errorf("the master's records do not fit: %w", err))
			c.requestMount()
		}
	}
	var others sync.WaitGroup
	for s, a := range last {
		delete(last, s)
		if len(last) == 0 { // As a rule the only one, whose put waits.
			c.acknowledge(ctx, s, a.log, a.seq)
			break
		}
		others.Go(func() { c.acknowledge(ctx, s, a.log, a.seq) })
	}
	others.Wait()
}

// countsWrites reports whether the guard of a segment knows which bytes of upstream's writes have arrived. Those that
// are not over tcp have arrived when their writer says so.
func (n *Node) countsWrites(s *segment) bool {
	return s.Protocol == "tcp" && slices.Contains(n.engine.Guarding(), s.Protocol)
}

// settle returns when no write is in progress into memory of the segment that its ledger calls free, and its tier has
// forgotten what the ledger does not have.
func (n *Node) settle(ctx context.Context, s *segment) error {
	settle, patience := func(ctx context.Context) error { return s.guard.Settle(ctx, strayGrace) }, strayTimeout
	if s.tier != nil {
		settle, patience = s.tier.disk.Settle, tierPatience
	} else if n.countsWrites(s) {
		n.giveUp(ctx, s, s.guard.Land(ctx, lateGrace))
	}
	call, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := settle(call)
	if ctx.Err() == nil && s.stuck.Swap(err != nil) != (err != nil) {
		n.deps.Log.Warn("batches for a ledger are not acknowledged while a transport does not let go of memory that is to be used again, or a storage tier does not forget; or they are again",
			"segment", s.Name, "error", err)
	}
	return errs.Wrap(errs.UnavailableInCurrentStatus, "store node: segment "+s.ID.String(), err)
}

// giveUp removes the objects of puts whose bytes did not all arrive, before the master hears that the puts have ended here and
// lets them be read.
func (n *Node) giveUp(ctx context.Context, s *segment, lost []ledger.Put) {
	byTenant := map[model.Tenant][]model.Key{}
	for _, p := range lost {
		if e, ok, err := s.ledger.Find(p); ok && err == nil {
			if tenant, key, ok := model.SplitKey(e.Name); ok {
				byTenant[tenant] = append(byTenant[tenant], key)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, giveUpTimeout)
	defer cancel()
	for tenant, keys := range byTenant {
		_, err := n.masterOf(s).Remove(ctx, model.Caller{Client: n.session.ID(), Tenant: tenant}, keys, true)
		n.deps.Log.Warn("objects are removed of which bytes did not arrive: their writer ended the puts without waiting for that, as upstream's clients up to 0.3.11 do",
			"segment", s.Name, "keys", len(keys), "first", store.Quote(keys[0]), "after", lateGrace, "error", err)
	}
}

// acknowledge lets the master know that the ledger of a segment has a batch, once the segment has settled. Otherwise the
// master sends the batch again.
func (n *Node) acknowledge(ctx context.Context, s *segment, l *ledger.Log, seq ledger.Seq) {
	if n.settle(ctx, s) != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.ledger == l {
		s.acked = max(s.acked, seq)
	}
}

func (n *Node) segmentOf(id model.SegmentID) *segment {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.segments {
		if s.ID == id {
			return s
		}
	}
	return nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
