package tierwire

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/memwire"
	tierv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/tier/v1"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// pump submits the operations of the host to the tier, and sends the completions that it reaps.
type pump struct {
	t      tier.Tier
	areas  *memwire.Areas
	stream grpc.BidiStreamingServer[tierv1.OperateRequest, tierv1.OperateResponse]
	logger *slog.Logger

	kick   chan struct{} // holds a token when there may be something to submit
	reaped chan struct{} // closed when the tier gives out no more completions

	// mu is held while operations are submitted, so that a Wipe knows which were, and while those
	// fail that are not, so that their completions come before the end of the stream.
	mu     sync.Mutex
	got    uint64 // the number of the last operation that arrived
	urgent []tier.Op
	other  []tier.Op
	news   chan struct{} // closed and replaced when got changes

	sending sync.Mutex
	over    bool // the stream is not used any more
}

func newPump(t tier.Tier, areas *memwire.Areas, stream grpc.BidiStreamingServer[tierv1.OperateRequest, tierv1.OperateResponse], logger *slog.Logger) *pump {
	return &pump{t: t, areas: areas, stream: stream, logger: logger, kick: make(chan struct{}, 1), reaped: make(chan struct{}), news: make(chan struct{})}
}

// run serves the stream. It returns nil once the host sends no more operations, the tier is stopped,
// and each operation has its completions.
func (p *pump) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	received := make(chan error, 1)
	go func(done chan<- error) { done <- p.receive() }(received) // It ends with the stream.
	var submitting sync.WaitGroup
	submitting.Go(func() { p.submit(ctx) })
	defer submitting.Wait()
	defer cancel()
	defer p.hangUp()
	for reaped := p.reaped; ; {
		select {
		case err := <-received:
			if err != nil {
				return err
			}
			if received = nil; reaped == nil {
				return p.rest()
			}
		case <-reaped:
			if reaped = nil; received == nil {
				return p.rest()
			}
		case <-p.stream.Context().Done():
			return p.stream.Context().Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// rest ends the operations that the stopped tier did not get: it refuses them.
func (p *pump) rest() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hand()
	return nil
}

// receive takes operations until the host sends no more. Its error says why it must end.
func (p *pump) receive() error {
	for {
		m, err := p.stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errs.Wrap(errs.RPCFail, "", err)
		}
		if err := p.take(m.GetOps()); err != nil {
			return err
		}
		p.wake()
	}
}

// take queues operations.
func (p *pump) take(ms []*tierv1.Op) error {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range ms {
		if m.GetNumber() != p.got+1 {
			return errs.New(errs.InvalidParams, "", "operation %d after operation %d", m.GetNumber(), p.got)
		}
		p.got++
		o, err := p.decode(m, now)
		switch {
		case err != nil:
			p.post(failure(o, err))
		case o.Urgent:
			p.urgent = append(p.urgent, o)
		default:
			p.other = append(p.other, o)
		}
	}
	close(p.news)
	p.news = make(chan struct{})
	return nil
}

// failure is the completion of an operation that the tier did not get.
func failure(o tier.Op, err error) []tier.Completion {
	return []tier.Completion{{ID: o.ID, Status: tier.Failed, Err: err}}
}

// decode turns a message into an operation on the memory of this process. A region is unknown only
// if the tier was stopped.
func (p *pump) decode(m *tierv1.Op, now time.Time) (tier.Op, error) {
	o := tier.Op{ID: m.GetNumber(), Kind: tier.Kind(m.GetKind()), Record: decodeRecord(m.GetRecord()), At: decodeLocator(m.GetAt()), Offset: m.GetOffset(), Urgent: m.GetUrgent()}
	if m.GetLimit() > 0 {
		o.Deadline = now.Add(time.Duration(min(m.GetLimit(), int64(maxLimit))))
	}
	for _, part := range m.GetLocal() {
		a, b, err := p.areas.Use(part.GetRegion(), part.GetAt(), part.GetLength())
		if err != nil {
			return o, errs.Wrap(errs.UnavailableInCurrentStatus, "local memory", err)
		}
		p.areas.Leave(a, false) // The host deregisters a region when nothing is in flight on it.
		o.Local = append(o.Local, b)
	}
	return o, nil
}

func (p *pump) wake() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// submit hands operations to the tier until ctx ends.
func (p *pump) submit(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		p.mu.Lock()
		next := p.hand()
		p.mu.Unlock()
		var expired <-chan time.Time
		if !next.IsZero() {
			timer.Reset(time.Until(next))
			expired = timer.C
		}
		select {
		case <-p.kick:
		case <-expired:
		case <-ctx.Done():
			return
		}
	}
}

// hand gives the tier what it accepts, urgent operations first. It fails those that the tier refuses
// and those that waited until their deadline, and returns the next deadline of the others. mu is held.
func (p *pump) hand() (next time.Time) {
	for _, queue := range []*[]tier.Op{&p.urgent, &p.other} {
		for len(*queue) > 0 {
			n, err := p.t.Submit(*queue)
			*queue = (*queue)[max(0, min(n, len(*queue))):]
			if err != nil && len(*queue) > 0 {
				p.post(failure((*queue)[0], err))
				*queue = (*queue)[1:]
			} else if n <= 0 {
				break
			}
		}
		now := time.Now()
		*queue = slices.DeleteFunc(*queue, func(o tier.Op) bool {
			switch {
			case o.Deadline.IsZero():
			case !o.Deadline.After(now):
				p.post(failure(o, errs.New(errs.RPCTimeout, "", "the deadline passed before the tier accepted the operation")))
				return true
			case next.IsZero() || o.Deadline.Before(next):
				next = o.Deadline
			}
			return false
		})
	}
	return next
}

// overtake returns when the tier has every operation up to a number. Writes that the tier has not
// accepted so far fail.
func (p *pump) overtake(ctx context.Context, number uint64) error {
	for {
		p.mu.Lock()
		if p.got >= number {
			break
		}
		news := p.news
		p.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return errs.New(errs.RPCTimeout, "", "the operations that were submitted before did not arrive: %w", ctx.Err())
		}
	}
	defer p.mu.Unlock()
	for _, queue := range []*[]tier.Op{&p.urgent, &p.other} {
		*queue = slices.DeleteFunc(*queue, func(o tier.Op) bool {
			before := o.Kind == tier.Write && o.ID <= number
			if before {
				p.post(failure(o, errs.New(errs.UnavailableInCurrentStatus, "", "the volume was wiped")))
			}
			return before
		})
	}
	return nil
}

// reap sends completions until the tier is stopped.
func (p *pump) reap() {
	defer close(p.reaped)
	defer p.wake()
	dst := make([]tier.Completion, batchItems)
	for {
		n, err := p.t.Reap(context.Background(), dst)
		p.post(dst[:n])
		clear(dst[:n])
		if err != nil || n == 0 {
			if !errors.Is(err, tier.ErrStopped) {
				p.logger.Error("the tier returns no more completions", "error", err)
			}
			return
		}
		p.wake()
	}
}

// post sends completions.
func (p *pump) post(done []tier.Completion) {
	p.sending.Lock()
	defer p.sending.Unlock()
	for part := range slices.Chunk(done, batchItems) {
		if p.over {
			return
		}
		if err := p.stream.Send(encodeCompletions(part)); err != nil {
			p.over = true // The host is gone.
		}
	}
}

// hangUp ends the use of the stream.
func (p *pump) hangUp() {
	p.sending.Lock()
	defer p.sending.Unlock()
	p.over = true
}
