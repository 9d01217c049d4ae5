// Package etcdconn is a connection to etcd: endpoints as people write them, a client that is made when it
// is needed, and errors that say which service failed and what to do.
package etcdconn

import (
	"context"
	"crypto/tls"
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

	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	connectTimeout = 1500 * time.Millisecond
	// A server that is back is found again within reconnectMax.
	reconnectMax = time.Second
	// Reads of a server that is not there are tried this often, retryWait apart.
	readTries = 5
	retryWait = 50 * time.Millisecond
)

// Options are the settings of a Conn; the zero value is usable.
type Options struct {
	// Service is what etcd is for, in errors: "metadata service" for example.
	Service string
	// Username and Password, both or none.
	Username, Password string
	// TLS, nil for plain connections; endpoints with https need none for the defaults.
	TLS *tls.Config
	// Timeout bounds one call. Default 3 s.
	Timeout time.Duration
	// MessageSize bounds a message, in bytes. 0 for the library's default.
	MessageSize int
	// Logger gets what the library has to say, at the level debug; nil for none.
	Logger *slog.Logger
}

// Conn is a connection. It connects with the first call and again after the servers were away. Safe for
// concurrent use.
type Conn struct {
	opts      Options
	endpoints []string
	name      string

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	lock   chan struct{}    // holds one token while client is read or made
	client *clientv3.Client // nil before the first call
}

// New returns a connection to "etcd://host:port,host:port", or the same without the scheme. It does not
// connect. InvalidParams.
func New(conn string, opts Options) (*Conn, error) {
	name := opts.Service + " " + scheme + strings.TrimPrefix(conn, scheme)
	endpoints, err := parse(opts.Service, conn, opts.TLS != nil)
	if err != nil {
		return nil, err
	}
	if (opts.Username == "") != (opts.Password == "") {
		return nil, errs.New(errs.InvalidParams, name, "user name and password are given both or not at all")
	}
	if opts.Timeout <= 0 {
		opts.Timeout = 3 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Conn{opts: opts, endpoints: endpoints, name: name, lock: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Each returns a connection to each endpoint alone, of the same name, for calls that must not wait for one that hangs.
// The caller closes them.
func (c *Conn) Each() []*Conn {
	var all []*Conn
	for _, endpoint := range c.endpoints {
		one := &Conn{opts: c.opts, endpoints: []string{endpoint}, name: c.name, lock: make(chan struct{}, 1)}
		one.ctx, one.cancel = context.WithCancel(context.Background())
		all = append(all, one)
	}
	return all
}

// Name is the service with its endpoints, for errors and log lines.
func (c *Conn) Name() string { return c.name }

// Context ends with Close.
func (c *Conn) Context() context.Context { return c.ctx }

// Close ends the connections, and calls in progress. Repeatable.
func (c *Conn) Close() {
	c.cancel()
	c.lock <- struct{}{}
	defer func() { <-c.lock }()
	if c.client != nil {
		// What it returns is that its context ended, by this very call.
		_ = c.client.Close()
		c.client = nil
	}
}

// Do makes one call within Timeout and explains its error.
func (c *Conn) Do(ctx context.Context, call func(context.Context, *clientv3.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	client, err := c.Client(ctx)
	if err != nil {
		return c.Explain(err)
	}
	return c.Explain(call(ctx, client))
}

// Client returns the client, which is made with the first call: with a password, making
// it asks the servers.
func (c *Conn) Client(ctx context.Context) (*clientv3.Client, error) {
	select {
	case c.lock <- struct{}{}:
		defer func() { <-c.lock }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := errors.Join(c.ctx.Err(), ctx.Err()); err != nil {
		return nil, err
	}
	if c.client != nil {
		return c.client, nil
	}
	made, err := clientv3.New(clientv3.Config{
		Context: c.ctx, Endpoints: c.endpoints, TLS: c.opts.TLS, Username: c.opts.Username, Password: c.opts.Password,
		DialTimeout:          c.opts.Timeout,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: c.opts.Timeout,
		MaxCallSendMsgSize:   c.opts.MessageSize, MaxCallRecvMsgSize: c.opts.MessageSize,
		MaxUnaryRetries: readTries, BackoffWaitBetween: retryWait,
		Logger: bridge(c.opts.Logger),
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
	c.client = made
	return made, nil
}

// failFast makes a call to servers that are not there fail with the reason, where the
// library would wait for them until the time is up.
func failFast(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(ctx, method, req, reply, cc, append(opts, grpc.WaitForReady(false))...)
}

// Explain gives an error of the library a code, the name of the service and a hint. An error that has a
// code stays as it is.
func (c *Conn) Explain(err error) error {
	var ours *errs.Error
	if err == nil || errors.As(err, &ours) {
		return err
	}
	rpc := grpcCode(err)
	switch {
	case c.ctx.Err() != nil:
		return errs.New(errs.UnavailableInCurrentStatus, c.name, "the connection was closed")
	case errors.Is(err, rpctypes.ErrRequestTooLarge) || rpc == codes.ResourceExhausted:
		return errs.WithHint(errs.Wrap(errs.InvalidParams, c.name, err), "register fewer, larger ranges, or start etcd with a larger --max-request-bytes")
	case rpc == codes.Unauthenticated || rpc == codes.PermissionDenied || errors.Is(err, rpctypes.ErrAuthFailed) || errors.Is(err, rpctypes.ErrUserEmpty):
		return errs.WithHint(errs.Wrap(errs.RPCFail, c.name, err), "check the user name and the password for etcd, and what that user may do")
	case errors.Is(err, context.DeadlineExceeded) || rpc == codes.DeadlineExceeded:
		return errs.WithHint(errs.Wrap(errs.RPCTimeout, c.name, err), "is that etcd, and does it have a leader?")
	}
	return errs.WithHint(errs.Wrap(errs.RPCFail, c.name, err), "is etcd running there?")
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
// port. secure says that https is that of an endpoint without one.
func parse(service, conn string, secure bool) ([]string, error) {
	bad := func(format string, args ...any) error {
		return errs.WithHint(errs.New(errs.InvalidParams, service+" "+strconv.Quote(conn), format, args...),
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
			if secure {
				endpoint = "https://" + endpoint
			} else {
				endpoint = "http://" + endpoint
			}
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
