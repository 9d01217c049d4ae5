package store

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/transfer"
)

// hurryPause is the least time between pings that report failures as they happen.
const hurryPause = 50 * time.Millisecond

// move has the engine carry out requests, notes how each peer did, and returns the answers in
// the memory of dst where that is large enough.
func (s *Session) move(ctx context.Context, e engine, reqs []transfer.Request, dst []transfer.Result) []transfer.Result {
	self, now := e.LocalName(), time.Now()
	var few [4]tally
	peers, failed := few[:0], false
	for i := range reqs {
		if name := reqs[i].Peer; name != self && tallyOf(peers, name) == nil {
			peers = append(peers, tally{endpoint: name})
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
		case blamed(ctx, &reqs[i], r, now):
			t.failed++
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
	if failed && time.Since(s.born)-time.Duration(s.lastPing.Load()) >= hurryPause {
		s.hurry() // The master places nothing more there.
	}
	return results
}

// tallyOf finds an endpoint's tally. The peers of one call are few.
func tallyOf(peers []tally, endpoint string) *tally {
	for i := range peers {
		if peers[i].endpoint == endpoint {
			return &peers[i]
		}
	}
	return nil
}
