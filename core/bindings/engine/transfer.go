package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// leastTime is the shortest bound of a transfer. It holds for every configuration.
const leastTime = 5 * time.Second

// Range is moved by one request: Local to or from Addr, an address of the peer.
type Range struct {
	Local []byte
	Addr  uint64
}

// Notice is a message from one engine to another.
type Notice struct {
	Name    string `json:"name"`
	Message string `json:"msg"`
}

// bound returns how long a transfer of size bytes may take: store.transfer_timeout, at least 5 s,
// plus 1 ns for each byte. Without that setting it may take as long as bytes move.
func (s *session) bound(size uint64) time.Duration {
	if s.cfg.TransferTimeout <= 0 {
		return request.Patience(size)
	}
	const most = uint64(time.Hour * 24)
	return max(s.cfg.TransferTimeout, leastTime) + time.Duration(min(size, most))
}

// requests makes the requests for ranges. They share one deadline, which follows from their total
// size.
func (s *session) requests(target string, kind transport.OpKind, ranges []Range) ([]transfer.Request, time.Time) {
	total := uint64(0)
	for _, r := range ranges {
		total += uint64(len(r.Local))
	}
	deadline := time.Now().Add(s.bound(total))
	out := make([]transfer.Request, len(ranges))
	for i, r := range ranges {
		out[i] = transfer.Request{Kind: kind, Local: r.Local, Peer: target, Addr: r.Addr, Deadline: deadline}
	}
	return out, deadline
}

// SegmentName returns the name under which a segment is looked up.
func SegmentName(name string) string { return strings.TrimPrefix(name, "/") }

// Transfer moves all ranges between this process and target, and waits, in bounded time. When all
// bytes are in place, it delivers the notice, if there is one. The error is that of the first range
// that failed. The error of a notice that was not delivered says that the data is in place.
func (e *Engine) Transfer(target string, kind transport.OpKind, ranges []Range, notice *Notice) error {
	return e.do(func(s *session) error {
		target := SegmentName(target)
		if err := s.transfer(target, kind, ranges); err != nil || notice == nil {
			return err
		}
		if err := s.notify(target, *notice); err != nil {
			return errs.WithHint(err, "the data is in place, the notification was not delivered")
		}
		return nil
	})
}

// transfer makes a second attempt if the peer may have been restarted since the first.
func (s *session) transfer(target string, kind transport.OpKind, ranges []Range) error {
	reqs, deadline := s.requests(target, kind, ranges)
	ctx, cancel := context.WithDeadline(s.ctx, deadline)
	defer cancel()
	for again := false; ; again = true {
		if err := s.ensurePeer(ctx, target); err != nil {
			return err
		}
		err := first(s.core.Transfer.Transfer(ctx, reqs))
		if err == nil {
			return nil
		}
		s.peers.forget(target)
		if again || !errs.ClassOf(err).Retryable() || errors.Is(err, transfer.ErrQuarantined) || ctx.Err() != nil {
			return err
		}
	}
}

func first(results []transfer.Result) error {
	for _, r := range results {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// Deadline returns the deadline of a transfer of size bytes that begins now.
func (e *Engine) Deadline(size uint64) (time.Time, error) {
	return ask(e, func(s *session) (time.Time, error) { return time.Now().Add(s.bound(size)), nil })
}
