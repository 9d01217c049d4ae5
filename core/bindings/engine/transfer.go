package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// leastTime is the least bound on a transfer, whatever the configuration says.
const leastTime = 5 * time.Second

// Range is what one request moves: Local to or from Addr, which is an address of the peer.
type Range struct {
	Local []byte
	Addr  uint64
}

// Notice is a message from one engine to another.
type Notice struct {
	Name    string `json:"name"`
	Message string `json:"msg"`
}

// bound is how long moving size bytes may take: store.transfer_timeout, at least 5 s, and
// 1 ns for each byte; without one, as long as bytes move.
func (s *session) bound(size uint64) time.Duration {
	if s.cfg.TransferTimeout <= 0 {
		return request.Patience(size)
	}
	const most = uint64(time.Hour * 24)
	return max(s.cfg.TransferTimeout, leastTime) + time.Duration(min(size, most))
}

// requests are the ranges with the deadline that their sum gives, which is also returned.
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

// SegmentName is the name under which a segment is looked up.
func SegmentName(name string) string { return strings.TrimPrefix(name, "/") }

// Transfer moves all ranges between this process and target, and waits, bounded. When all
// bytes are in place it delivers the notice, if there is one. The error is that of the first
// range that failed; that of a notice that was not delivered says so.
func (e *Engine) Transfer(target string, kind transport.OpKind, ranges []Range, notice *Notice) error {
	s, err := e.use()
	if err != nil {
		return e.failed(err)
	}
	target = SegmentName(target)
	if err := s.transfer(target, kind, ranges); err != nil {
		return e.failed(err)
	}
	if notice == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.HandshakeConnectTimeout)
	defer cancel()
	if err := s.core.Transfer.Notify(ctx, target, metadata.Notification{Name: notice.Name, Message: notice.Message}); err != nil {
		return e.failed(errs.WithHint(err, "the data is in place, the notification was not delivered"))
	}
	return nil
}

// transfer tries a second time where the peer may have been restarted since the first.
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

// Deadline is when moving size bytes has to have ended, if it begins now.
func (e *Engine) Deadline(size uint64) (time.Time, error) {
	s, err := e.use()
	if err != nil {
		return time.Time{}, e.failed(err)
	}
	return time.Now().Add(s.bound(size)), nil
}
