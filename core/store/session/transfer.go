package session

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// failurePause is the least time between pings that report failures at once.
	failurePause = 50 * time.Millisecond
	// blameAfter is the least time that a transfer must have had before its deadline counts against
	// the peer: a short deadline of the caller says nothing about the peer.
	blameAfter = time.Second
)

// Engine is what Transfer needs of *transfer.Engine.
type Engine interface {
	LocalName() string
	TransferTo(ctx context.Context, reqs []transfer.Request, dst []transfer.Result) []transfer.Result
}

// Transfer has the engine carry out requests and records how each peer responded. It returns the
// results in dst if that is large enough.
func (s *Session) Transfer(ctx context.Context, e Engine, reqs []transfer.Request, dst []transfer.Result) []transfer.Result {
	self, now := e.LocalName(), time.Now()
	var few [4]tally
	peers, failed := few[:0], false
	for i := range reqs {
		if name := reqs[i].Peer; name != self && tallyOf(peers, name) == nil {
			peers = append(peers, tally{endpoint: name, began: now})
			s.peers.begin(name, now)
		}
	}
	results := e.TransferTo(ctx, reqs, dst[:0])
	for i := range results {
		t := tallyOf(peers, reqs[i].Peer)
		if t == nil {
			continue
		}
		r := &results[i]
		switch {
		case r.Err == nil:
			t.done++
			t.bytes += uint64(len(reqs[i].Local))
		case errors.Is(r.Err, transfer.ErrStalled): // It is for the reads that have to wait for it to report that.
			t.stalled = true
		case blamed(ctx, &reqs[i], r, now):
			t.failed++
			t.silent = t.silent || errors.Is(r.Err, transfer.ErrTimeout) || errors.Is(r.Err, context.DeadlineExceeded)
			failed = true
		}
		if r.Done.After(t.last) {
			t.last = r.Done
		}
	}
	for i := range peers {
		s.peers.end(&peers[i])
	}
	if len(peers) > 0 && s.peers.first() {
		s.nudge()
	}
	if failed {
		s.pingSoon(failurePause) // So that the master places nothing more there.
	}
	return results
}

// Trust is the share of reads that an endpoint gets compared to a healthy one, 0 to 1.
func (s *Session) Trust(endpoint string, now time.Time) float64 { return s.peers.trust(endpoint, now) }

// WorthWaiting reports whether reads that have no other copy should wait for an endpoint that refuses them: it worked less than
// a second ago.
func (s *Session) WorthWaiting(endpoint string, now time.Time) bool {
	return s.peers.worthWaiting(endpoint, now)
}

// tallyOf finds the tally of an endpoint. The peers of one call are few.
func tallyOf(peers []tally, endpoint string) *tally {
	for i := range peers {
		if peers[i].endpoint == endpoint {
			return &peers[i]
		}
	}
	return nil
}

// blamed reports whether a transfer that began at a time failed because of the peer.
func blamed(ctx context.Context, req *transfer.Request, res *transfer.Result, began time.Time) bool {
	err := res.Err
	limit, bounded := ctx.Deadline()
	switch {
	case bounded && !time.Now().Before(limit): // The timer of the context may be late.
		return false
	case ctx.Err() != nil || errs.ClassOf(err) != errs.ClassTransientPeer && !errors.Is(err, transfer.ErrQuarantined):
		return false
	case !req.Deadline.IsZero() && !res.Done.Before(req.Deadline) || errors.Is(err, context.DeadlineExceeded):
		return res.Done.Sub(began) >= blameAfter
	}
	for own := new(errs.Error); errors.As(err, &own); err = own.Err {
		if own.Class == errs.ClassLocalDevice {
			return false // The engine found no way to the peer because of this machine.
		}
	}
	return true
}
