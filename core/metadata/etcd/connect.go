// Package etcd is a metadata.Store in etcd, with the keys and values of upstream's nodes.
// Values have no lease: a node that crashes leaves its own behind.
package etcd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
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

// bridge returns a logger for the library that writes to log at the level debug: what
// matters comes back to the caller as an error.
func bridge(log *slog.Logger) *zap.Logger { return zap.New(&core{log: log}) }

type core struct{ log *slog.Logger }

func (c *core) Enabled(zapcore.Level) bool {
	return c.log.Enabled(context.Background(), slog.LevelDebug)
}

func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{log: c.log.With(attributes(fields)...)}
}

func (c *core) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	c.log.Debug("etcd: "+e.Message, attributes(fields)...)
	return nil
}

func (c *core) Sync() error { return nil }

func attributes(fields []zapcore.Field) []any {
	values := zapcore.NewMapObjectEncoder()
	out := make([]any, 0, len(fields))
	for _, f := range fields {
		f.AddTo(values)
		out = append(out, slog.Any(f.Key, values.Fields[f.Key]))
	}
	return out
}

const (
	scheme       = "etcd://"
	defaultPort  = "2379"
	maxEndpoints = 16
)

// parse splits "etcd://a:1,b:2", or the same without the scheme, into URLs; a semicolon
// separates as well. An endpoint may have a scheme of its own, http or https, and needs no
// port.
func parse(conn string) ([]string, error) {
	bad := func(format string, args ...any) error {
		return errs.WithHint(errs.New(errs.InvalidParams, "metadata service "+strconv.Quote(conn), format, args...),
			"use etcd://host:port,host:port; user and password are settings of their own")
	}
	list := strings.FieldsFunc(strings.TrimPrefix(conn, scheme), func(r rune) bool { return r == ',' || r == ';' })
	if len(list) == 0 || len(list) > maxEndpoints {
		return nil, bad("%d endpoints; 1 to %d are allowed", len(list), maxEndpoints)
	}
	out := make([]string, 0, len(list))
	for _, text := range list {
		endpoint := strings.TrimSpace(text)
		if !strings.Contains(endpoint, "://") {
			endpoint = "http://" + endpoint
		}
		u, err := url.Parse(endpoint)
		switch {
		case err != nil || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
			return nil, bad("%q is not host and port", text)
		case u.Scheme != "http" && u.Scheme != "https":
			return nil, bad("%q has the scheme %q", text, u.Scheme)
		}
		port := u.Port()
		if port == "" {
			port = defaultPort
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, bad("%q: port %q is not from 1 to 65535", text, port)
		}
		out = append(out, u.Scheme+"://"+net.JoinHostPort(u.Hostname(), port))
	}
	if slices.ContainsFunc(out, func(e string) bool { return strings.HasPrefix(e, "https:") != strings.HasPrefix(out[0], "https:") }) {
		return nil, bad("http and https cannot be mixed")
	}
	return out, nil
}
