package staging

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	nodev1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/node/v1"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/api/rpc/convert"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// Options are the settings of a Client; the zero value is usable.
type Options struct {
	// ConnectTimeout is how long one attempt to connect may take before the calls that wait for it fail. Default 2 s.
	ConnectTimeout time.Duration
	// Timeout bounds one call, unless the caller's context ends earlier. Default 10 s.
	Timeout time.Duration
	// IdleTimeout is how long a connection lasts that no call uses. Default 1 min.
	IdleTimeout time.Duration
	// Connections is how many nodes there may be connections to. Default 256.
	Connections int
	// Doors says whether connections use TLS; nil for no.
	Doors *doors.Doors
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.ConnectTimeout, 2*time.Second)
	def(&o.Timeout, 10*time.Second)
	def(&o.IdleTimeout, time.Minute)
	if o.Connections <= 0 {
		o.Connections = 256
	}
	return o
}

const (
	// minBackoff and maxBackoff bound how long calls to a node fail at once after one that it did not answer. The time doubles
	// with every further one.
	minBackoff = 500 * time.Millisecond
	maxBackoff = 8 * time.Second
	// blameAfter is the least time that a node must have had to answer before the caller's deadline counts against it.
	blameAfter = time.Second
)

// Client asks the nodes of storage tiers. It connects to a node with the first call. Safe for concurrent use.
type Client struct {
	opts Options
	now  func() time.Time

	mu     sync.Mutex
	nodes  map[string]*node   // by endpoint: those that further calls use
	open   map[*node]struct{} // these, and those that leave once their calls have ended
	closed bool
}

var _ store.Tiers = (*Client)(nil)

// node is the connection to one endpoint. The mutex of the client guards it.
type node struct {
	conn    *grpc.ClientConn
	calls   int // in flight
	used    time.Time
	backoff time.Duration // the last one, 0 after a call that was answered
	until   time.Time     // until when calls fail at once
	why     error
	leaving bool // its last call closes it
}

// NewClient returns a client without connections.
func NewClient(opts Options) *Client {
	return &Client{opts: opts.withDefaults(), now: time.Now, nodes: map[string]*node{}, open: map[*node]struct{}{}}
}

// Close ends all connections; calls in flight and later ones fail. Repeatable.
func (c *Client) Close() error {
	c.mu.Lock()
	open := c.open
	c.nodes, c.open, c.closed = nil, nil, true
	c.mu.Unlock()
	var err error
	for n := range open {
		err = errors.Join(err, n.conn.Close())
	}
	return err
}

// Stage implements store.Tiers.
func (c *Client) Stage(ctx context.Context, endpoint string, reads []model.StageRead) (model.Staging, error) {
	if err := convert.CheckStage(len(reads)); err != nil {
		return model.Staging{}, err
	}
	out, err := call(ctx, c, endpoint, "stage", nodev1.TierServiceClient.Stage, convert.ToStage(reads))
	if err != nil {
		return model.Staging{}, err
	}
	return convert.FromStaging(reads, out)
}

// Release implements store.Tiers.
func (c *Client) Release(ctx context.Context, endpoint string, id uint64) error {
	_, err := call(ctx, c, endpoint, "release", nodev1.TierServiceClient.Release, &nodev1.ReleaseRequest{Id: id})
	return err
}

func call[In, Out any](ctx context.Context, c *Client, endpoint, what string, f func(nodev1.TierServiceClient, context.Context, In, ...grpc.CallOption) (Out, error), in In) (Out, error) {
	op := "storage tier " + strconv.Quote(endpoint) + ": " + what
	var none Out
	n, err := c.begin(op, endpoint)
	if err != nil {
		return none, err
	}
	began := c.now()
	within, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	out, err := f(nodev1.NewTierServiceClient(n.conn), within, in)
	silent := false
	if err != nil {
		if err, silent = callError(op, err); errs.Is(err, errs.RPCTimeout) {
			silent = silent && c.now().Sub(began) >= blameAfter
		}
		out = none
	}
	c.end(n, err, silent)
	return out, err
}

// begin returns the connection to a node for a call, which end ends.
func (c *Client) begin(op, endpoint string) (*node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, n := c.now(), c.nodes[endpoint]
	switch {
	case c.closed:
		return nil, errs.Wrap(errs.RPCFail, op, store.ErrClosed)
	case n != nil && now.Before(n.until):
		return nil, errs.New(errs.RPCFail, op, "it is not called again yet after %w", n.why)
	case n == nil:
		if len(c.nodes) >= c.opts.Connections && !c.evict() {
			return nil, errs.New(errs.UnavailableInCurrentStatus, op, "%d nodes are in use at the same time, the bound", c.opts.Connections)
		}
		n = &node{}
		if err := c.dial(endpoint, n); err != nil {
			return nil, errs.Wrap(errs.InvalidParams, op, err)
		}
		c.nodes[endpoint], c.open[n] = n, struct{}{}
	}
	n.calls++
	return n, nil
}

// end records the outcome of a call. silent says that the node did not answer.
func (c *Client) end(n *node, err error, silent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.calls--
	n.used = c.now()
	if n.leaving && n.calls == 0 {
		c.hangUp(n)
	}
	if err == nil {
		n.backoff, n.why = 0, nil
	}
	if !silent || n.used.Before(n.until) { // Calls that fail together are one failure.
		return
	}
	n.backoff = min(max(2*n.backoff, minBackoff), maxBackoff)
	n.until, n.why = n.used.Add(n.backoff), err
}

// leave has further calls to endpoint take another connection than n's, which its last call closes.
func (c *Client) leave(endpoint string, n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.leaving = true
	if c.nodes[endpoint] == n {
		delete(c.nodes, endpoint)
	}
	if n.calls == 0 {
		c.hangUp(n)
	}
}

// hangUp closes a connection without calls, unless Close did. The caller holds mu.
func (c *Client) hangUp(n *node) {
	delete(c.open, n)
	_ = n.conn.Close() // No call is in flight.
}

// evict ends the connection that no call has used for longest, and returns whether there was one. The caller holds mu.
func (c *Client) evict() bool {
	oldest := ""
	for endpoint, n := range c.nodes {
		if n.calls == 0 && (oldest == "" || n.used.Before(c.nodes[oldest].used)) {
			oldest = endpoint
		}
	}
	n := c.nodes[oldest]
	if n == nil {
		return false
	}
	delete(c.nodes, oldest)
	c.hangUp(n)
	return true
}

// dial makes the connection of n, which the first call opens.
func (c *Client) dial(endpoint string, n *node) (err error) {
	connect := c.opts.Doors.Dialer(config.DoorOffload, new(net.Dialer).DialContext, security.RoleStore, security.RoleClient)
	// passthrough: the name is resolved anew with every attempt, by the standard resolver.
	n.conn, err = grpc.NewClient("passthrough:///"+endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // TLS, where there is any, is the dialler's.
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := connect(ctx, "tcp", addr)
			if err == nil {
				security.OnLeave(conn, func() { go c.leave(endpoint, n) })
			}
			return conn, err
		}),
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(rpc.MaxStageAnswer), grpc.MaxCallSendMsgSize(rpc.MaxStageRequest)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: minBackoff, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxBackoff},
			MinConnectTimeout: c.opts.ConnectTimeout,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithIdleTimeout(c.opts.IdleTimeout),
	)
	return err
}

// callError returns the node's own error where it answered with one, else an error that says why there is no answer, and
// whether the node was not reached.
func callError(op string, err error) (_ error, silent bool) {
	st := status.Convert(err)
	if e := convert.FromStatus(st); e != nil {
		return errs.Wrap(errs.CodeOf(e), op, e), false
	}
	code := convert.FromGRPC(st.Code())
	switch st.Code() {
	case codes.Canceled:
		return &errs.Error{Code: code, Class: errs.ClassUnknown, Op: op, Err: context.Canceled}, false
	case codes.DeadlineExceeded:
		return errs.WithHint(&errs.Error{Code: code, Class: errs.ClassTransientPeer, Op: op, Err: context.DeadlineExceeded},
			"the node did not answer in time; look at its load and its log"), true
	case codes.Unavailable:
		return errs.WithHint(errs.New(code, op, "%s", st.Message()), "is the store of that node running?"), true
	case codes.Unimplemented:
		return errs.WithHint(errs.New(code, op, "%s", st.Message()), "at that address is no store of this release"), false
	default:
		return errs.New(code, op, "%s", st.Message()), false
	}
}
