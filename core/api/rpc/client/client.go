// Package client is the master as a client of another process sees it; see Dial.
package client

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/api/lean"
	"github.com/mooncake-go/mooncake/core/api/mastercodec"
	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/api/rpc/convert"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Options are the settings of a Client; the zero value is usable.
type Options struct {
	// Timeout bounds one call to the master, unless the caller's context ends earlier.
	// Default 30 s.
	Timeout time.Duration
	// ConnectTimeout is how long one attempt to connect may take before the calls that
	// wait for it fail. Default 2 s.
	ConnectTimeout time.Duration
	// MaxRetryDelay is the longest pause between attempts to connect. Default 2 s.
	MaxRetryDelay time.Duration
	// Version of this program, for error texts and the master's log.
	Version string
	// MaxItems and MaxBytes bound one call; larger batches are cut. Defaults 4096 items
	// and 4 MiB.
	MaxItems, MaxBytes int
	// Connections is how many there may be: a call takes one that no other uses. Default 4.
	Connections int
	// GRPC has all calls go over gRPC, also to a master that speaks package lean.
	GRPC bool
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.Timeout, 30*time.Second)
	def(&o.ConnectTimeout, 2*time.Second)
	def(&o.MaxRetryDelay, 2*time.Second)
	if o.Connections <= 0 {
		o.Connections = 4
	}
	if o.MaxItems <= 0 || o.MaxItems > rpc.MaxItems {
		o.MaxItems = 4096
	}
	if o.MaxBytes <= 0 || o.MaxBytes > rpc.MaxMessageSize/2 {
		o.MaxBytes = 4 << 20
	}
	return o
}

const (
	// pullTimeout bounds a pull, which waits for a second where there is nothing.
	pullTimeout = 5 * time.Second
	// pullRetry is the longest pause between attempts to connect for a pull: a node notices a restarted master by it.
	pullRetry = 250 * time.Millisecond
)

// Client is a master somewhere else. It connects with the first calls, and again by itself
// after the master went away; calls made meanwhile fail at once with RPCFail. Safe for
// concurrent use.
type Client struct {
	addr string
	opts Options
	lean *lean.Pool
	conn *grpc.ClientConn         // for a master that does not speak package lean
	way  grpc.ClientConnInterface // the one of both that calls take
	rpc  masterv1.MasterServiceClient
	// pulling is the connection of Pull, which pulls calls.
	pulling *lean.Pool
	pulls   masterv1.MasterServiceClient
}

var _ store.Master = (*Client)(nil)

// Dial returns a client of the master at addr, "host:port". It does not connect: an error
// is always about addr.
func Dial(addr string, opts Options) (*Client, error) {
	opts = opts.withDefaults()
	if err := checkAddr(addr); err != nil {
		return nil, err
	}
	// passthrough: the name is resolved anew with every attempt, by the standard resolver.
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(rpc.MaxMessageSize), grpc.MaxCallSendMsgSize(rpc.MaxMessageSize)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: opts.MaxRetryDelay},
			MinConnectTimeout: opts.ConnectTimeout,
		}),
		// A master that vanished without closing is noticed within 15 s.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}),
		grpc.WithIdleTimeout(0),
	)
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, "master address "+strconv.Quote(addr), err)
	}
	c := &Client{addr: addr, opts: opts, conn: conn}
	leaner := lean.ClientOptions{
		Limits: lean.Limits{Frame: rpc.MaxMessageSize}, ConnectTimeout: opts.ConnectTimeout, RetryMax: opts.MaxRetryDelay, Timeout: opts.Timeout,
		Fallback: conn, Codec: mastercodec.Codec{Places: &mastercodec.Places{}},
	}
	c.lean = lean.NewPool(addr, opts.Connections, leaner)
	leaner.RetryMax, leaner.Timeout = pullRetry, pullTimeout
	c.pulling = lean.NewPool(addr, 1, leaner)
	c.way = c.lean
	pulls := grpc.ClientConnInterface(c.pulling)
	if opts.GRPC {
		c.way = limited{conn, opts.Timeout}
		pulls = limited{conn, pullTimeout}
	}
	c.rpc, c.pulls = masterv1.NewMasterServiceClient(c.way), masterv1.NewMasterServiceClient(pulls)
	return c, nil
}

// limited ends calls after a while.
type limited struct {
	grpc.ClientConnInterface
	timeout time.Duration
}

// Invoke implements grpc.ClientConnInterface.
func (l limited) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return l.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

func checkAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		var n uint64
		if n, err = strconv.ParseUint(port, 10, 16); err == nil && (n == 0 || host == "") {
			err = errors.New("it has no host or no port")
		}
	}
	if err != nil {
		return errs.WithHint(errs.New(errs.InvalidParams, "master address "+strconv.Quote(addr), "%w", err), "use host:port, for example 127.0.0.1:50051")
	}
	return nil
}

// Close ends the connection; calls in flight fail. Repeatable.
func (c *Client) Close() error {
	if err := errors.Join(c.lean.Close(), c.pulling.Close()); err != nil {
		return err
	}
	if err := c.conn.Close(); err != nil && status.Code(err) != codes.Canceled {
		return err
	}
	return nil
}

// call makes one call and gives its error the form that store.Master promises.
func call[In, Out any](ctx context.Context, c *Client, op string, f func(context.Context, In, ...grpc.CallOption) (Out, error), in In) (Out, error) {
	var none Out
	if err := convert.CheckCaller(in); err != nil {
		return none, err
	}
	out, err := f(ctx, in)
	if err != nil {
		return none, c.callError(op, err)
	}
	return out, nil
}
