package transportwire

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/errs"
	transportv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/transport/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// hand sends descriptors under a new token.
func (t *Client) hand(ctx context.Context, op string, fds ...int) (token uint64, err error) {
	token = t.tokens.Add(1)
	return token, t.handOver(ctx, op, token, fds...)
}

func (t *Client) handOver(ctx context.Context, op string, token uint64, fds ...int) error {
	ctx, cancel := context.WithTimeout(ctx, t.caller.Timeout)
	defer cancel()
	err := t.fds.Send(ctx, token, fds...)
	if err == nil {
		return nil
	}
	code := errs.RPCFail
	if errors.Is(err, context.DeadlineExceeded) {
		code = errs.RPCTimeout
	}
	return &errs.Error{Code: code, Class: errs.ClassTransientPath, Op: t.caller.ID + ": " + op, Err: err}
}

// followChanges keeps the endpoint and the rails up to date with the plugin's.
func (t *Client) followChanges(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != running || t.watch != nil || t.host.Gone() {
		return
	}
	first := true
	t.watch = wire.Follow(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[transportv1.WatchResponse], error) {
		return t.rpc.Watch(ctx, &transportv1.WatchRequest{})
	}, func(ctx context.Context, m *transportv1.WatchResponse) error {
		defer func() { first = false }()
		return t.noteChange(ctx, m, first)
	}, func(err error) {
		if wire.Garbled(err) {
			t.host.Broken("its reports of changes: %v", err)
		}
	})
}

// noteChange handles a report. The first report comes without a change.
func (t *Client) noteChange(ctx context.Context, m *transportv1.WatchResponse, first bool) error {
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
