package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	connectTimeout = 1500 * time.Millisecond
	// A server that is back is found again within reconnectMax.
	reconnectMax = time.Second
	// Reads of a server that is not there are tried this often, retryWait apart.
	readTries = 5
	retryWait = 50 * time.Millisecond
	// Room for keys and framing around the largest value.
	messageSize = metadata.MaxDescriptorSize + 1<<20
)

// connect returns the client, which is made with the first call: with a password, making
// it asks the servers.
func (s *Store) connect(ctx context.Context) (clientv3.KV, error) {
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := errors.Join(s.ctx.Err(), ctx.Err()); err != nil {
		return nil, err
	}
	if s.client != nil {
		return s.client, nil
	}
	c, err := clientv3.New(clientv3.Config{
		Context: s.ctx, Endpoints: s.endpoints, TLS: s.opts.TLS, Username: s.opts.Username, Password: s.opts.Password,
		DialTimeout:          s.opts.Timeout,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: s.opts.Timeout,
		MaxCallSendMsgSize:   messageSize, MaxCallRecvMsgSize: messageSize,
		MaxUnaryRetries: readTries, BackoffWaitBetween: retryWait,
		Logger: bridge(s.opts.Logger),
		DialOptions: []grpc.DialOption{
			grpc.WithConnectParams(grpc.ConnectParams{
				MinConnectTimeout: connectTimeout,
				Backoff:           backoff.Config{BaseDelay: retryWait, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnectMax},
			}),
			grpc.WithChainUnaryInterceptor(failFast),
		},
	})
	if err != nil {
		return nil, err
	}
	s.client = c
	return c, nil
}

// failFast makes a call to servers that are not there fail with the reason, where the
// library would wait for them until the time is up.
func failFast(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(ctx, method, req, reply, cc, append(opts, grpc.WaitForReady(false))...)
}

// explain gives an error of the library a code, the address of the service and a hint.
func (s *Store) explain(err error) error {
	var ours *errs.Error
	if err == nil || errors.Is(err, metadata.ErrNotFound) || errors.Is(err, metadata.ErrDuplicate) || errors.As(err, &ours) {
		return err
	}
	op := "metadata service " + s.name
	rpc := grpcCode(err)
	switch {
	case s.ctx.Err() != nil:
		return errs.New(errs.UnavailableInCurrentStatus, op, "the store was closed")
	case errors.Is(err, rpctypes.ErrRequestTooLarge) || rpc == codes.ResourceExhausted:
		return errs.WithHint(errs.Wrap(errs.InvalidParams, op, err), "register fewer, larger ranges, or start etcd with a larger --max-request-bytes")
	case rpc == codes.Unauthenticated || rpc == codes.PermissionDenied || errors.Is(err, rpctypes.ErrAuthFailed) || errors.Is(err, rpctypes.ErrUserEmpty):
		return errs.WithHint(errs.Wrap(errs.RPCFail, op, err), "check the user name and the password for etcd, and what that user may do")
	case errors.Is(err, context.DeadlineExceeded) || rpc == codes.DeadlineExceeded:
		return errs.WithHint(errs.Wrap(errs.RPCTimeout, op, err), "is that etcd, and does it have a leader?")
	}
	return errs.WithHint(errs.Wrap(errs.RPCFail, op, err), "is etcd running there?")
}

func grpcCode(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	if st, ok := status.FromError(err); ok {
		return st.Code()
	}
	return codes.Unknown
}
