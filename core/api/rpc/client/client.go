// Package client is the master as a client of another process sees it; see Dial.
package client

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/api/lean"
	"github.com/mooncake-go/mooncake/core/api/mastercodec"
	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/api/rpc/convert"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/open"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/framed"
	"github.com/mooncake-go/mooncake/core/internal/masteraddr"
	"github.com/mooncake-go/mooncake/core/model"
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
	// Cluster is the one whose leader a directory names.
	Cluster string
	// Directory is how it is asked.
	Directory open.Options
	// Version of this program, for error texts and the master's log.
	Version string
	// MaxItems and MaxBytes bound one call; larger batches are cut. Defaults 4096 items
	// and 4 MiB.
	MaxItems, MaxBytes int
	// Connections is how many there may be: a call takes one that no other uses. Default 4.
	Connections int
	// GRPC has all calls go over gRPC, also to a master that speaks package lean.
	GRPC bool
	// Doors says whether connections use TLS, and with which certificates; nil for what Security says at present.
	Doors    *doors.Doors
	Security config.Security
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
// after the master went away; calls made meanwhile fail at once with RPCFail. It follows the master
// that leads: when another one takes over, calls in flight fail with RPCFail, and later ones go to that
// one. While none leads, calls fail at once with store.ErrNoLeader. Safe for concurrent use.
type Client struct {
	opts  Options
	place place
	lean  *lean.Pool
	grpc  *grpcConn                // for a master that does not speak package lean
	way   grpc.ClientConnInterface // the one of both that calls take
	rpc   masterv1.MasterServiceClient
	// pulling is the connection of Pull, which pulls calls.
	pulling *lean.Pool
	pulls   masterv1.MasterServiceClient

	directory ha.Directory // nil without one
	following sync.WaitGroup
	stop      context.CancelFunc // of following
}

var (
	_ store.Master = (*Client)(nil)
	_ store.Mover  = (*Client)(nil)
)

// Dial returns a client of the master at addr: "host:port", a list of masters of which one leads, or a
// directory, "etcd://host:port", that says who leads. It does not connect: an error is always about addr.
func Dial(addr string, opts Options) (*Client, error) {
	a, err := masteraddr.Parse(addr)
	if err != nil {
		return nil, errs.WithHint(errs.New(errs.InvalidParams, "master address "+strconv.Quote(addr), "%w", err), "use host:port, for example 127.0.0.1:50051")
	}
	d, err := open.Directory(addr, opts.Cluster, opts.Directory)
	if err != nil {
		return nil, err
	}
	return dial(a, d, opts)
}

// dial is Dial for an address that was read, with its directory if there is one.
func dial(a masteraddr.Address, d ha.Directory, opts Options) (*Client, error) {
	opts = opts.withDefaults()
	if opts.Doors == nil && opts.Security.On() {
		var err error
		if opts.Doors, err = doors.Open(opts.Security, slog.New(slog.DiscardHandler)); err != nil {
			return nil, err
		}
	}
	c := &Client{opts: opts, directory: d, stop: func() {}, place: place{name: a.String(), addrs: a.Masters, several: len(a.Masters) > 1}}
	name, first := "leader", ""
	if len(a.Masters) > 0 {
		name, first = a.Masters[0], a.Masters[0]
	}
	var err error
	if c.grpc, err = newGRPC(name, a.Masters, opts.Doors, opts.ConnectTimeout, opts.MaxRetryDelay); err != nil {
		return nil, errs.Wrap(errs.InvalidParams, "master address "+strconv.Quote(a.String()), err)
	}
	leaner := lean.ClientOptions{
		Limits: framed.Limits{Frame: rpc.MaxMessageSize}, ConnectTimeout: opts.ConnectTimeout, RetryMax: opts.MaxRetryDelay, Timeout: opts.Timeout,
		Fallback: c.grpc, Codec: mastercodec.Codec{Places: &mastercodec.Places{}}, Reached: c.place.prefer, Admit: c.admit,
		Dial: Dialer(opts.Doors, lean.DialTCP),
	}
	c.lean = lean.NewPool(first, opts.Connections, leaner)
	leaner.RetryMax, leaner.Timeout = pullRetry, pullTimeout
	c.pulling = lean.NewPool(first, 1, leaner)
	c.way = c.lean
	pulls := grpc.ClientConnInterface(c.pulling)
	if opts.GRPC {
		c.way = limited{c.grpc, opts.Timeout}
		pulls = limited{c.grpc, pullTimeout}
	}
	c.rpc, c.pulls = masterv1.NewMasterServiceClient(c.way), masterv1.NewMasterServiceClient(pulls)
	c.begin(a.Masters)
	return c, nil
}

// begin starts to look for the leader, if there is a choice.
func (c *Client) begin(masters []string) {
	c.place.apply = func(nowhere error, addrs ...string) {
		c.lean.Redirect(nowhere, addrs...)
		c.pulling.Redirect(nowhere, addrs...)
		c.grpc.redirect(nowhere, addrs...)
	}
	if len(masters) > 1 {
		c.place.mu.Lock()
		defer c.place.mu.Unlock()
		c.place.redirect(nil, masters...)
	}
	if c.directory != nil {
		ctx, cancel := context.WithCancel(context.Background())
		c.stop = cancel
		c.following.Go(func() { c.place.follow(ctx, c.directory, c.opts.Cluster) })
	}
}

// OnMove implements store.Mover.
func (c *Client) OnMove(f func()) {
	c.place.mu.Lock()
	defer c.place.mu.Unlock()
	c.place.moved = f
}

// admit compares the protocols before the first call of a connection. A master that does not lead answers no Ready, but
// for refusing another protocol.
func (c *Client) admit(ctx context.Context, addr string, conn grpc.ClientConnInterface) error {
	op := "master " + addr + ": ready"
	out, err := masterv1.NewMasterServiceClient(conn).Ready(ctx, c.own())
	if err == nil {
		return rpc.CheckProtocol(op, c.opts.Version, out.GetVersion(), out.GetProtocol())
	}
	if err = c.callError("ready", err); errs.Is(err, errs.InvalidVersion) {
		return errs.Wrap(errs.InvalidVersion, op, err)
	}
	return nil
}

// own says which protocol this side speaks.
func (c *Client) own() *masterv1.ReadyRequest {
	return &masterv1.ReadyRequest{Version: convert.Text(c.opts.Version), Protocol: rpc.OwnProtocol()}
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

// NewID returns a new client id, which is of the identity of this process where the master knows identities. InvalidParams.
func (c *Client) NewID() (model.ClientID, error) { return c.opts.Doors.Own(model.NewUUID()) }

// Close ends the connection; calls in flight fail. Repeatable.
func (c *Client) Close() error {
	c.stop()
	if c.directory != nil {
		c.directory.Close()
	}
	c.following.Wait()
	if err := errors.Join(c.lean.Close(), c.pulling.Close()); err != nil {
		return err
	}
	if err := c.grpc.Close(); err != nil && status.Code(err) != codes.Canceled {
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
	if err = c.outcome(op, err); err != nil {
		return none, err
	}
	return out, nil
}
