package wire

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mooncake-go/mooncake/sdk/errs"
	transportv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/transport/v1"
	"github.com/mooncake-go/mooncake/sdk/wire/internal/datapath"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// ask does a call of a transport, bounded by the timeout and by ctx. What was lost on the
// way is of class transient-path: the peer has nothing to do with it.
func ask[Q, R any](ctx context.Context, t *Transport, timeout time.Duration, op string, f rpc[Q, R], q *Q) (*R, error) {
	name := t.id + ": " + op
	if err := t.host.Down(name); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := t.caller.acquire(bounded); err != nil {
		return nil, errs.WithClass(errs.ClassTransientPath, "", lost(ctx, name, err))
	}
	defer t.caller.release()
	r, err := f(bounded, q)
	if err == nil {
		return r, nil
	}
	st := status.Convert(err)
	if len(st.Details()) > 0 && ctx.Err() == nil {
		return nil, FromStatus(name, err)
	}
	if nonsense(st) {
		t.host.Broken("its answer to %s: %s", op, clip(st.Message(), maxItemText))
	}
	if bounded.Err() != nil && ctx.Err() == nil {
		err = errs.New(errs.RPCTimeout, name, "the plugin did not answer within %s", timeout)
	} else {
		err = lost(ctx, name, err)
	}
	return nil, errs.WithClass(errs.ClassTransientPath, "", err)
}

// nonsense reports an answer that no server of this package gives: too large, or no
// message.
func nonsense(st *status.Status) bool {
	return (st.Code() == codes.ResourceExhausted && strings.Contains(st.Message(), "received message")) ||
		(st.Code() == codes.Internal && strings.Contains(st.Message(), "unmarshal"))
}

// askGiving does a call whose answer gives something out: what comes after its caller
// stopped waiting goes to undo.
func askGiving[Q, R any](ctx context.Context, t *Transport, op string, f rpc[Q, R], q *Q, undo func(context.Context, *R)) (*R, error) {
	type answer struct {
		r   *R
		err error
	}
	answers := make(chan answer)
	go func() {
		inner := context.WithoutCancel(ctx)
		r, err := ask(inner, t, t.patience(), op, f, q)
		select {
		case answers <- answer{r, err}:
		case <-ctx.Done():
			if err == nil {
				undo(inner, r)
			}
		}
	}()
	select {
	case a := <-answers:
		return a.r, a.err
	case <-ctx.Done():
		return nil, errs.WithClass(errs.ClassTransientPath, "", lost(ctx, t.id+": "+op, ctx.Err()))
	}
}

// descriptors sends messages with descriptors, one at a time.
type descriptors struct {
	conn *shm.Conn
	turn chan struct{}
}

func newDescriptors(conn *shm.Conn) *descriptors {
	d := &descriptors{conn: conn, turn: make(chan struct{}, 1)}
	d.turn <- struct{}{}
	return d
}

// send hands descriptors over under a token. A plugin that does not read holds it up until
// the context ends.
func (d *descriptors) send(ctx context.Context, token uint64, fds ...int) error {
	select {
	case <-d.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { d.turn <- struct{}{} }()
	return d.conn.Send(ctx, datapath.EncodeMessage(token), fds...)
}

// hand sends descriptors under a new token.
func (t *Transport) hand(ctx context.Context, op string, fds ...int) (token uint64, err error) {
	token = t.tokens.Add(1)
	return token, t.handOver(ctx, op, token, fds...)
}

func (t *Transport) handOver(ctx context.Context, op string, token uint64, fds ...int) error {
	ctx, cancel := context.WithTimeout(ctx, t.caller.timeout)
	defer cancel()
	err := t.fds.send(ctx, token, fds...)
	if err == nil {
		return nil
	}
	code := errs.RPCFail
	if errors.Is(err, context.DeadlineExceeded) {
		code = errs.RPCTimeout
	}
	return &errs.Error{Code: code, Class: errs.ClassTransientPath, Op: t.id + ": " + op, Err: err}
}

// followChanges keeps the endpoint and the rails as the plugin has them.
func (t *Transport) followChanges(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{cancel: cancel, done: make(chan struct{})}
	t.mu.Lock()
	if t.state != transportRuns || t.watch != nil || t.host.Gone() {
		t.mu.Unlock()
		cancel()
		return
	}
	t.watch = w
	t.mu.Unlock()
	go func() {
		defer close(w.done)
		defer cancel()
		stream, err := t.rpc.Watch(ctx, &transportv1.WatchRequest{})
		for first := true; err == nil; first = false {
			var m *transportv1.WatchResponse
			if m, err = stream.Recv(); err == nil {
				err = t.noteChange(ctx, m, first)
			}
		}
		if nonsense(status.Convert(err)) {
			t.host.Broken("its reports of changes: %v", err)
		}
	}()
}

// noteChange takes a report in. The first one comes without a change.
func (t *Transport) noteChange(ctx context.Context, m *transportv1.WatchResponse, first bool) error {
	ep, err := decodeEndpoint(m.GetEndpoint())
	if err != nil {
		return t.garbage("watch", err)
	}
	t.mu.Lock()
	same := ep.Incarnation == t.endpoint.Incarnation && string(ep.Blob) == string(t.endpoint.Blob)
	t.endpoint = ep
	var railed []*Path
	for p := range t.paths {
		if p.railed {
			railed = append(railed, p)
		}
	}
	t.mu.Unlock()
	if first && same {
		return nil
	}
	for _, p := range railed {
		p.refresh(ctx)
	}
	select {
	case t.changed <- struct{}{}:
	default:
	}
	return nil
}
