package tierwire

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/memwire"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	tierv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/tier/v1"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/wire"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// Client is a tier on the other side of a connection. It implements tier.Tier. It does not own the
// connection.
type Client struct {
	*wire.Lifecycle
	o      Options
	kill   func(reason string)
	data   *shm.Conn
	caller *wire.Caller
	rpc    tierv1.TierServiceClient
	fds    *memwire.Outbox

	regions memwire.Regions
	tokens  atomic.Uint64

	kick     chan struct{}      // holds a token when out has operations or is complete
	ctx      context.Context    //nolint:containedctx // Of the goroutines, which run from Start to the end.
	cancel   context.CancelFunc // ends ctx
	received chan struct{}      // closed when no completion arrives any more

	mu     sync.Mutex
	state  state
	gone   bool   // Ended was called
	reason string // why the process has to end, empty while it has not
	volume tier.Volume
	spaces map[[2]uint64]uint64 // of the lengths of key and value

	flights map[uint64]*flight // by number
	users   map[uint64]int     // operations in flight on a region, by its handle
	last    uint64             // the number of the last operation
	owed    int                // operations whose last completion was not reaped
	out     []*tierv1.Op       // accepted and not sent
	done    []tier.Completion  // not reaped
	over    bool               // done gets no more
	news    chan struct{}      // closed and replaced when done, over or users change

	operations, moved uint64
}

// state is where a Client is in its lifecycle.
type state uint8

const (
	fresh state = iota
	running
	stopped
)

var _ tier.Tier = (*Client)(nil)

// Options are the options that only clients of tiers have.
type Options struct {
	// Overdue is how long after its deadline an operation may be in flight before Kill is called; 0
	// is DefaultOverdue.
	Overdue time.Duration
	// Limit is the longest that an operation without a deadline may be in flight before Kill is
	// called; 0 is OpTimeout.
	Limit time.Duration
}

// NewClient returns a client, which sends nothing before Describe.
func NewClient(conn grpc.ClientConnInterface, c wire.ClientOptions, o Options) *Client {
	if o.Overdue <= 0 {
		o.Overdue = DefaultOverdue
	}
	if o.Limit <= 0 {
		o.Limit = OpTimeout
	}
	if c.Kill == nil {
		c.Kill = func(string) {}
	}
	t := &Client{
		Lifecycle: wire.NewLifecycle(conn, c.ID), o: o, kill: c.Kill, data: c.Data, caller: wire.NewCaller(c), rpc: tierv1.NewTierServiceClient(conn),
		fds: memwire.NewOutbox(c.Data), kick: make(chan struct{}, 1), received: make(chan struct{}), spaces: map[[2]uint64]uint64{},
		flights: map[uint64]*flight{}, users: map[uint64]int{}, news: make(chan struct{}),
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.caller.Down = t.down
	t.caller.Garbled = func(op, text string) {
		t.broken("its answer to %s: %s", strings.TrimPrefix(op, t.caller.ID+": "), text)
	}
	return t
}

// Start implements plugin.Component.
func (t *Client) Start(ctx context.Context, host plugin.Host) error {
	op := t.caller.ID + ": start"
	if t.data == nil {
		return errs.New(errs.NotSupported, op, "there is no socket for descriptors (wire.ClientOptions.Data)")
	}
	ctx, cancel := wire.Bound(ctx)
	defer cancel()
	if err := t.Lifecycle.Start(ctx, host); err != nil {
		return err
	}
	m, err := wire.CallWithin(ctx, t.caller, wire.LifecycleTimeout, "volume", t.rpc.Volume, &tierv1.VolumeRequest{})
	if err != nil {
		return err
	}
	v, err := decodeVolume(m.GetVolume())
	if err != nil {
		return t.garbage("volume", err)
	}
	stream, err := t.rpc.Operate(t.ctx)
	if err != nil {
		return wire.Lost(ctx, op, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != fresh || t.gone { // Stop and Ended end the stream.
		return errs.New(errs.UnavailableInCurrentStatus, op, "the tier was stopped meanwhile")
	}
	t.state, t.volume = running, v
	go t.send(stream)
	go t.receive(stream)
	go t.watch()
	return nil
}

// Stop implements plugin.Component. The operations in flight complete. After an error they do when
// the process has ended.
func (t *Client) Stop(ctx context.Context) error {
	ctx, cancel := patient(ctx)
	defer cancel()
	t.mu.Lock()
	began := t.state != fresh
	if t.state == fresh {
		close(t.received)
		t.over = true
	}
	t.state = stopped
	t.broadcast()
	t.mu.Unlock()
	t.wake()
	err := t.Lifecycle.Stop(ctx)
	if !began {
		t.cancel()
		return t.unlessGone(err)
	}
	select {
	case <-t.received: // The stream ends with the last completion.
	case <-ctx.Done():
		if err == nil {
			err = wire.Lost(ctx, t.caller.ID+": stop", ctx.Err())
		}
	}
	return t.unlessGone(err)
}

// unlessGone returns nil if the process has ended, because then nothing is left to be stopped.
func (t *Client) unlessGone(err error) error {
	if t.isGone() {
		return nil
	}
	return err
}

// patient returns a context that ends some time after ctx, so that the plugin learns of the end of
// ctx and can still answer.
func patient(ctx context.Context) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(stopGrace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-out.Done():
		}
	})
	return out, func() { stop(); cancel() }
}

// Ended tells the client that the process has ended and was waited for, so that it no longer touches
// memory. Operations that the plugin completed keep their result; the others have failed, and those
// that were quarantined are returned. From then on calls fail with UnavailableInCurrentStatus. Ended
// may be called again.
func (t *Client) Ended() {
	t.mu.Lock()
	t.gone = true
	flows := t.state != fresh
	t.mu.Unlock()
	if flows { // What the process wrote before its end is still to be read.
		timer := time.NewTimer(endGrace)
		select {
		case <-t.received:
		case <-timer.C:
		}
		timer.Stop()
	}
	t.cancel()
	t.mu.Lock()
	defer t.mu.Unlock()
	cause := t.downLocked(t.caller.ID)
	for number, f := range t.flights {
		c := tier.Completion{ID: f.id, Status: tier.Failed, Err: cause}
		if f.quarantined {
			c = tier.Completion{ID: f.id, Status: tier.Returned}
		}
		t.finish(number, f, c)
	}
	t.over = true
	t.broadcast()
}

func (t *Client) isGone() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.gone
}

// broken ends the use of a process that broke the contract. Only the first reason counts.
func (t *Client) broken(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone || t.reason != "" {
		return
	}
	t.reason = fmt.Sprintf(format, args...)
	go t.kill(t.reason)
}

// garbage ends a process that gave an invalid answer.
func (t *Client) garbage(op string, err error) error {
	t.broken("its answer to %s: %v", op, err)
	return errs.Wrap(errs.CodeOf(err), t.caller.ID+": "+op, err)
}

// down returns why the process gets no more calls, or nil while it does.
func (t *Client) down(op string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.downLocked(op)
}

// downLocked is down with mu held.
func (t *Client) downLocked(op string) error {
	switch {
	case t.reason != "":
		return errs.New(errs.UnavailableInCurrentStatus, op, "the process of the tier broke the contract: %s", t.reason)
	case t.gone:
		return errs.New(errs.UnavailableInCurrentStatus, op, "the process of the tier has ended")
	}
	return nil
}

// usable returns the reason to refuse a call, or nil.
func (t *Client) usable(op string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.usableLocked(op)
}

// usableLocked is usable with mu held.
func (t *Client) usableLocked(op string) error {
	op = t.caller.ID + ": " + op
	if err := t.downLocked(op); err != nil {
		return err
	}
	if t.state != running {
		return errs.New(errs.UnavailableInCurrentStatus, op, "the tier is not running")
	}
	return nil
}

// broadcast wakes the goroutines that wait. mu is held.
func (t *Client) broadcast() {
	close(t.news)
	t.news = make(chan struct{})
}

// Figures returns figures about the process: operations counts those that ended, and bytes_moved the
// bytes of those that were OK. regions counts what is registered.
func (t *Client) Figures() map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return map[string]string{
		"operations": strconv.FormatUint(t.operations, 10), "bytes_moved": strconv.FormatUint(t.moved, 10), "regions": strconv.Itoa(t.regions.Count()),
	}
}
