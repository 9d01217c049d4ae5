package lean

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/core/internal/framed"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// ClientOptions are the settings of a Client; the zero value of each takes its default.
type ClientOptions struct {
	framed.Limits
	// ConnectTimeout bounds one attempt to connect. Default 2 s.
	ConnectTimeout time.Duration
	// RetryMin and RetryMax are the shortest and the longest pause after an attempt that
	// failed; calls fail at once meanwhile. Defaults 100 ms and 2 s.
	RetryMin, RetryMax time.Duration
	// Fallback answers calls while the server does not speak this protocol; nil for none.
	Fallback grpc.ClientConnInterface
	// Timeout bounds every call, also one of the fallback. 0 for none.
	Timeout time.Duration
	// Codec of requests and responses, nil for package proto.
	Codec Codec
	// Dial connects; nil for TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Admit, where set, is asked about each new connection before calls go over it, with the connection
	// itself. Its error is that of the calls, until the next attempt to connect.
	Admit func(ctx context.Context, addr string, conn grpc.ClientConnInterface) error
	// Reached, where set, gets the address of each connection that is made. It may call Redirect.
	Reached func(addr string)
}

// otherwise is how long a server that speaks only gRPC is not asked again.
const otherwise = time.Minute

// Client calls a server, or the one of several that can be reached. It connects with the first call, and
// again by itself. It implements grpc.ClientConnInterface for unary calls. Safe for concurrent use.
type Client struct {
	opts ClientOptions

	mu       sync.Mutex
	addrs    []string // in the order in which they are tried; immutable
	nowhere  error    // why there is no address
	closed   bool
	current  *session
	dialling chan struct{} // closed when the attempt in progress is over, or none is needed; nil while there is none
	abort    context.CancelFunc
	failures int
	failed   error         // of the last attempt
	until    time.Time     // no attempt before
	other    *ForeignError // what the server spoke in the last attempt, nil for this protocol
	barred   *BarredError  // why it was not admitted in the last attempt, nil where it was
	attempts sync.WaitGroup
}

var _ grpc.ClientConnInterface = (*Client)(nil)

// NewClient makes a client of the server at addr, "host:port". It does not connect. With an empty addr,
// calls wait for the first Redirect.
func NewClient(addr string, o ClientOptions) *Client {
	o.Limits = o.Limits.WithDefaults()
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.ConnectTimeout, 2*time.Second)
	def(&o.RetryMin, 100*time.Millisecond)
	def(&o.RetryMax, 2*time.Second)
	if o.Codec == nil {
		o.Codec = plain{}
	}
	if o.Dial == nil {
		o.Dial = DialTCP
	}
	if o.Reached == nil {
		o.Reached = func(string) {}
	}
	c := &Client{opts: o, abort: func() {}}
	if addr == "" {
		c.dialling = make(chan struct{})
	} else {
		c.addrs = []string{addr}
	}
	return c
}

// BarredError is the error of calls while no server at the addresses is admitted.
type BarredError struct{ Err error }

// Error is that of Admit.
func (e *BarredError) Error() string { return e.Err.Error() }

// Unwrap returns the error of Admit.
func (e *BarredError) Unwrap() error { return e.Err }

// errMoved ends the connections of a client that is redirected.
var errMoved = errors.New("another server has taken over")

// Redirect changes where the server is. Of several addresses the first that can be reached is taken; with
// none, calls fail at once with nowhere. A connection to another address than the first ends at once, and
// the calls in flight on it fail with Unavailable; the next call connects at once.
func (c *Client) Redirect(nowhere error, addrs ...string) {
	c.mu.Lock()
	c.addrs, c.nowhere = addrs, nowhere
	c.failures, c.failed, c.other, c.barred, c.until = 0, nil, nil, nil, time.Time{}
	if c.dialling != nil {
		c.abort()
		close(c.dialling)
		c.dialling = nil
	}
	s := c.current
	if s != nil && len(addrs) > 0 && s.addr == addrs[0] {
		s = nil
	} else {
		c.current = nil
	}
	c.mu.Unlock()
	if s != nil {
		s.end(errMoved)
	}
}

// DialTCP connects. A peer that vanished without closing is noticed within 15 s.
func DialTCP(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 2}}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	framed.BoundUnacknowledged(conn)
	return conn, nil
}

// Invoke implements grpc.ClientConnInterface. Errors carry a status: Unavailable while there is
// no connection, and for calls whose connection ended; while another kind of server answers at
// the address, errors are a *ForeignError. Invoke waits for a context of package callctx without
// deriving another from it. After Invoke returns, no goroutine reads args or writes to reply any
// more.
func (c *Client) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err() // Nothing is sent for a caller that has left.
	}
	w := waitFor(ctx, c.opts.Timeout)
	defer w.free()
	for {
		s, err := c.session(w)
		if err != nil {
			return err
		}
		if s == nil {
			return c.fallback(ctx, method, args, reply, opts...)
		}
		if err := s.invoke(w, method, args, reply); !errors.Is(err, errBye) {
			return err
		}
	}
}

func (c *Client) fallback(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if c.opts.Timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, c.opts.Timeout)
		defer cancel()
		ctx = limited
	}
	return c.opts.Fallback.Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface through the fallback.
func (c *Client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if c.opts.Fallback == nil {
		return nil, status.Error(codes.Unimplemented, "this connection has no streams")
	}
	return c.opts.Fallback.NewStream(ctx, desc, method, opts...)
}

// session returns a connection, nil for the fallback.
func (c *Client) session(w *wait) (*session, error) {
	for {
		c.mu.Lock()
		switch {
		case c.closed:
			c.mu.Unlock()
			return nil, status.Error(codes.Canceled, "the connection is closed")
		case c.nowhere != nil:
			defer c.mu.Unlock()
			return nil, c.nowhere
		case c.current != nil && c.current.alive():
			s := c.current
			c.mu.Unlock()
			return s, nil
		case time.Now().Before(c.until) && c.dialling == nil:
			defer c.mu.Unlock()
			return nil, c.refusal()
		}
		if c.dialling == nil {
			over, addrs := make(chan struct{}), c.addrs
			ctx, cancel := context.WithCancel(context.Background())
			c.dialling, c.abort = over, cancel
			c.attempts.Go(func() { //nolint:contextcheck // Others wait for it too.
				defer cancel()
				c.attempt(ctx, over, addrs)
			})
		}
		over := c.dialling
		c.mu.Unlock()
		select {
		case <-over:
		case <-w.caller:
			return nil, w.ended(callerEnd)
		case <-w.own:
			return nil, w.ended(ownEnd)
		case <-w.limit.C:
			return nil, w.ended(limitEnd)
		}
	}
}

// refusal says why there is no connection, nil where the fallback answers. mu is held.
func (c *Client) refusal() error {
	switch {
	case c.other != nil && c.other.Protocol == foreign.HTTP2 && c.opts.Fallback != nil:
		return nil
	case c.other != nil:
		return c.other
	case c.barred != nil:
		return c.barred
	}
	return notSent{status.Newf(codes.Unavailable, "cannot connect to %s: %v", strings.Join(c.addrs, ", "), c.failed)}
}

// ErrNotSent is in the chain of the error of a call for which there was no connection.
var ErrNotSent = errors.New("the call was not sent")

// notSent is the status of such a call.
type notSent struct{ status *status.Status }

// Error implements error.
func (n notSent) Error() string { return n.status.Err().Error() }

// GRPCStatus is what package status looks for.
func (n notSent) GRPCStatus() *status.Status { return n.status }

// Is implements what errors.Is looks for.
func (n notSent) Is(target error) bool { return target == ErrNotSent }

// attempt connects to the first of the addresses that can be reached.
func (c *Client) attempt(ctx context.Context, over chan struct{}, addrs []string) {
	var s *session
	var failed error
	var other *ForeignError
	var barred *BarredError
	foreigners := 0
	for _, addr := range addrs {
		var err error
		if s, err = c.connect(ctx, addr); err == nil {
			break
		}
		if errors.As(err, &other) {
			foreigners++
		}
		errors.As(err, &barred) // The servers at the others may just be down.
		if failed == nil {
			failed = err
		} else {
			failed = fmt.Errorf("%w; %w", failed, err)
		}
	}
	if foreigners < len(addrs) {
		other = nil // The server may be at one of the others.
	}
	c.finish(over, s, failed, other, barred)
}

// finish ends an attempt, which made a session or failed.
func (c *Client) finish(over chan struct{}, s *session, failed error, other *ForeignError, barred *BarredError) {
	c.mu.Lock()
	closed, moved := c.closed, c.dialling != over
	if !moved {
		c.dialling = nil
		defer close(over)
	}
	switch {
	case closed || moved:
	case s != nil:
		c.current, c.failures, c.failed, c.other, c.barred = s, 0, nil, nil, nil
	default:
		pause := min(c.opts.RetryMin<<min(c.failures, 16), c.opts.RetryMax)
		if other != nil && other.Protocol == foreign.HTTP2 {
			pause = otherwise
		}
		c.failures++
		c.failed, c.other, c.barred, c.until = failed, other, barred, time.Now().Add(pause)
	}
	c.mu.Unlock()
	switch {
	case s == nil:
	case closed:
		s.end(errGone)
	case moved:
		s.end(errMoved)
	default:
		c.opts.Reached(s.addr)
	}
}

// connect connects to one address.
func (c *Client) connect(ctx context.Context, addr string) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.ConnectTimeout)
	defer cancel()
	for {
		s, err := c.connectOnce(ctx, addr)
		// Where the certificates were replaced meanwhile, another connection takes the present ones.
		switch again := s != nil && security.Leaving(s.conn) && ctx.Err() == nil; {
		case again:
			s.end(errGone)
		case err != nil:
			return nil, err
		default:
			return s, nil
		}
	}
}

// connectOnce makes one connection. Beside an error it returns a session that has ended, or nil.
func (c *Client) connectOnce(ctx context.Context, addr string) (*session, error) {
	dial := func(ctx context.Context) (net.Conn, error) { return c.opts.Dial(ctx, addr) }
	conn, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	s, err := newSession(ctx, conn, dial, c.opts.Limits, c.opts.Codec)
	if other := (*ForeignError)(nil); errors.As(err, &other) {
		other.Addr = addr
	}
	if err != nil {
		return nil, err
	}
	s.addr = addr
	if c.opts.Admit != nil {
		if err := c.opts.Admit(ctx, addr, alone{s}); err != nil {
			s.end(errGone)
			return s, &BarredError{err}
		}
	}
	if !s.alive() {
		return s, errors.New("it ended the connection at once")
	}
	return s, nil
}

// alone makes calls over one session.
type alone struct{ *session }

// Invoke implements grpc.ClientConnInterface.
func (a alone) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	w := waitFor(ctx, 0)
	defer w.free()
	return a.invoke(w, method, args, reply)
}

// NewStream implements grpc.ClientConnInterface.
func (a alone) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "this connection has no streams")
}

// Close ends the connection; calls in flight fail. Repeatable. The fallback stays open.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	s := c.current
	c.abort()
	if c.dialling != nil && len(c.addrs) == 0 {
		close(c.dialling) // Nothing but Redirect would.
		c.dialling = nil
	}
	c.mu.Unlock()
	c.attempts.Wait()
	if s != nil {
		s.end(errGone)
	}
	return nil
}
