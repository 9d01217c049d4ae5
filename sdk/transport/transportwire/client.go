package transportwire

import (
	"bytes"
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	transportv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/transport/v1"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transportwire/internal/datapath"
	"github.com/mooncake-go/mooncake/sdk/wire"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// Client is a transport on the other side of a connection. It implements
// transport.Transport and transport.Changing, and transport.As finds transport.Upstream
// where the manifest has CapUpstream. It does not own the connection.
//
// A region without a descriptor can only be the local side of operations; its key is nil.
type Client struct {
	*wire.Lifecycle
	o      Options
	data   *shm.Conn
	caller *wire.Caller
	rpc    transportv1.TransportServiceClient
	host   *datapath.Host
	fds    *descriptors

	changed chan struct{}
	tokens  atomic.Uint64

	mu        sync.Mutex
	manifest  plugin.Manifest
	state     state
	quiet     bool // the plugin answered Stop: it holds nothing any more
	endpoint  transport.Endpoint
	segment   transport.Segment // the last that was told
	vm        bool              // the plugin may copy from and to this process
	paths     map[*Path]struct{}
	watch     *wire.Watch
	elsewhere int // regions that have another address in the plugin
	unclosed  int // paths that the plugin did not close when it was told
	leaving   map[transport.RegionID]*leave

	// probe is what the plugin reads and writes to show that it can, a nonce and an answer. It
	// must not be on a stack, which moves.
	probe *[2][nonceSize]byte

	sharing chan struct{} // holds a token: the right to make the stage
	stage   *shm.Memory
}

// state is where a Transport is in its life.
type state uint8

const (
	fresh state = iota
	running
	stopped
)

var (
	_ transport.Transport = (*Client)(nil)
	_ transport.Changing  = (*Client)(nil)
)

// Options are what only the clients of transports have.
type Options struct {
	// Overdue is how long after its deadline an operation may stay without a completion before
	// Kill; 0 is DefaultOverdue.
	Overdue time.Duration
	// Foreign says how memory without a descriptor is reached.
	Foreign Foreign
	// Staging is the size in bytes of the area through which such memory goes; 0 is
	// DefaultStaging.
	Staging int
}

// Foreign is a choice of how a transport in a process of its own reaches memory of the host
// that has no descriptor.
type Foreign uint8

// The choices.
const (
	// ForeignAuto: the plugin copies where the kernel permits it, else the host does.
	ForeignAuto Foreign = iota
	// ForeignVM: the plugin copies, with process_vm_readv and process_vm_writev, or memory
	// without a descriptor is refused.
	ForeignVM
	// ForeignStaging: the host copies.
	ForeignStaging
	// ForeignRefuse: only memory with a descriptor is taken.
	ForeignRefuse
)

// NewClient makes a client; nothing is sent before Describe.
func NewClient(conn grpc.ClientConnInterface, c wire.ClientOptions, o Options) *Client {
	if o.Overdue <= 0 {
		o.Overdue = DefaultOverdue
	}
	if o.Staging <= 0 {
		o.Staging = DefaultStaging
	}
	if c.Kill == nil {
		c.Kill = func(string) {}
	}
	t := &Client{
		Lifecycle: wire.NewLifecycle(conn, c.ID), o: o, data: c.Data, caller: wire.NewCaller(c), rpc: transportv1.NewTransportServiceClient(conn),
		fds: newDescriptors(c.Data), changed: make(chan struct{}, 1), paths: map[*Path]struct{}{}, sharing: make(chan struct{}, 1),
		probe: new([2][nonceSize]byte), leaving: map[transport.RegionID]*leave{},
	}
	t.sharing <- struct{}{}
	t.host = datapath.NewHost(datapath.HostOptions{
		Name: c.ID.String(), Break: c.Kill, Fail: fromFailure, Overdue: o.Overdue, Limit: OpTimeout,
	})
	// The peer has nothing to do with what is lost between host and plugin.
	t.caller.Class, t.caller.Down = errs.ClassTransientPath, t.host.Down
	t.caller.Garbled = func(op, text string) {
		t.host.Broken("its answer to %s: %s", strings.TrimPrefix(op, t.caller.ID+": "), text)
	}
	return t
}

// Describe asks the other side for its manifest and validates it. The capabilities in it
// count from then on.
func (t *Client) Describe(ctx context.Context) (plugin.Manifest, error) {
	m, err := t.Lifecycle.Describe(ctx)
	if err != nil {
		return m, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == fresh {
		t.manifest = m
	}
	return m, nil
}

// has reports whether the plugin has a capability.
func (t *Client) has(c plugin.Capability) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.manifest.Has(c)
}

// Unwrap returns what transport.As finds besides: transport.Upstream, where the manifest
// names it.
func (t *Client) Unwrap() any {
	if t.has(transport.CapUpstream) {
		return &upstream{t}
	}
	return nil
}

// Start implements plugin.Component.
func (t *Client) Start(ctx context.Context, host plugin.Host) error {
	op := t.caller.ID + ": start"
	if t.data == nil {
		return errs.New(errs.NotSupported, op, "there is no socket for descriptors (wire.ClientOptions.Data)")
	}
	ctx, cancel := wire.Bound(ctx)
	defer cancel()
	t.mu.Lock()
	described := t.manifest.Format != 0
	t.mu.Unlock()
	if !described {
		if _, err := t.Describe(ctx); err != nil {
			return err
		}
	}
	if err := t.Lifecycle.Start(ctx, host); err != nil {
		return err
	}
	if err := t.join(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	t.state = running
	localAny, refuse := t.manifest.Has(transport.CapLocalAny), t.manifest.Has(transport.CapNoForeign)
	t.mu.Unlock()
	t.host.LocalAny = localAny
	if localAny && !refuse {
		// Submit cannot wait for it.
		if err := t.share(ctx); err != nil && errs.CodeOf(err) != errs.NotSupported {
			return err
		}
	}
	t.followChanges(context.WithoutCancel(ctx))
	return nil
}

// nonceSize is the length of the random number by which the plugin shows that it can copy
// from and to this process.
const nonceSize = 32

// join finds out how the plugin gets at memory without a descriptor, and where peers reach
// it.
func (t *Client) join(ctx context.Context) error {
	nonce, answer := t.probe[0][:], t.probe[1][:]
	if _, err := rand.Read(nonce); err != nil {
		return errs.Wrap(errs.Internal, t.caller.ID+": start", err)
	}
	q := &transportv1.JoinRequest{}
	if t.o.Foreign == ForeignAuto || t.o.Foreign == ForeignVM {
		q.Probe = encodeProbe(nonce, answer)
	}
	r, err := wire.CallWithin(ctx, t.caller, wire.LifecycleTimeout, "join", t.rpc.Join, q)
	if err != nil {
		return err
	}
	ep, err := decodeEndpoint(r.GetEndpoint())
	if err != nil {
		return t.garbage("join", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endpoint = ep
	t.vm = q.Probe != nil && bytes.Equal(r.GetNonce(), nonce) && bytes.Equal(answer, nonce)
	return nil
}

// garbage ends a process whose answer cannot be.
func (t *Client) garbage(op string, err error) error {
	t.host.Broken("its answer to %s: %v", op, err)
	return errs.WithClass(errs.ClassTransientPath, t.caller.ID+": "+op, err)
}

// Endpoint implements transport.Transport.
func (t *Client) Endpoint() transport.Endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	return transport.Endpoint{Blob: bytes.Clone(t.endpoint.Blob), Incarnation: t.endpoint.Incarnation}
}

// Changed implements transport.Changing.
func (t *Client) Changed() <-chan struct{} { return t.changed }

// Stop implements plugin.Component. It closes the paths first.
func (t *Client) Stop(ctx context.Context) error {
	ctx, cancel := wire.Bound(ctx)
	defer cancel()
	t.mu.Lock()
	t.state = stopped
	paths := make([]*Path, 0, len(t.paths))
	for p := range t.paths {
		paths = append(paths, p)
	}
	w := t.watch
	t.watch = nil
	t.mu.Unlock()
	t.host.Stopped()
	var closing sync.WaitGroup
	for _, p := range paths {
		closing.Go(func() { _ = p.Close(ctx) }) // One that stays open shows in the process's Stop.
	}
	closing.Wait()
	err := t.Lifecycle.Stop(ctx)
	w.Stop()
	if t.host.Gone() {
		return nil
	}
	if err == nil {
		t.mu.Lock()
		t.quiet = true
		t.mu.Unlock()
		t.unshare()
	}
	return err
}

// Ended says that the process was collected: nothing of it touches memory any more. What
// was under way ends by the rules of the contract: what the plugin completed counts, a
// Read that it did not has failed, and so has a Write that it had not taken yet; one that
// it had is Quarantined. From then on calls fail, class transient-path, but for those that
// give back. Repeatable.
func (t *Client) Ended() {
	t.host.Ended()
	t.mu.Lock()
	w := t.watch
	t.watch = nil
	t.mu.Unlock()
	w.Cancel() // It ends by itself.
	t.unshare()
}

// Figures returns what is worth showing of the way to the plugin. Names: operations that
// ended; bytes_moved by them; bytes_copied between the host's memory and the plugin, 0
// where all memory is shared; memory: how memory was reached so far ("mapped", "vm",
// "staging"); foreign: how memory without a descriptor is or would be ("vm", "staging",
// "refused"); regions, and regions_elsewhere that have another address in the plugin than
// in the host; paths.
func (t *Client) Figures() map[string]string {
	f := t.host.Figures()
	t.mu.Lock()
	elsewhere, foreign := t.elsewhere, t.way()
	t.mu.Unlock()
	memory := "mapped"
	if f.Foreign > 0 {
		memory = string(t.host.Way())
	}
	u := func(n uint64) string { return strconv.FormatUint(n, 10) }
	return map[string]string{
		"operations": u(f.Operations), "bytes_moved": u(f.Moved), "bytes_copied": u(f.Copied), "memory": memory,
		"foreign": string(foreign), "regions": strconv.Itoa(f.Regions), "regions_elsewhere": strconv.Itoa(elsewhere), "paths": strconv.Itoa(f.Paths),
	}
}

// PluginStats are what a plugin counts of itself.
type PluginStats struct {
	// Operations that it took, and bytes that it copied between the host's memory and its own.
	Operations, Copied uint64
	Regions, Paths     uint64
}

// Stats asks the plugin what it counts.
func (t *Client) Stats(ctx context.Context) (PluginStats, error) {
	r, err := wire.Call(ctx, t.caller, "stats", t.rpc.Stats, &transportv1.StatsRequest{})
	return PluginStats{Operations: r.GetOperations(), Copied: r.GetBytesCopied(), Regions: r.GetRegions(), Paths: r.GetPaths()}, err
}

// usable says why a call has to be refused.
func (t *Client) usable(op string) error {
	if err := t.host.Down(t.caller.ID + ": " + op); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != running {
		return errs.New(errs.UnavailableInCurrentStatus, t.caller.ID+": "+op, "the transport is not running")
	}
	return nil
}

// patience bounds a call that a transport may take its time for.
func (t *Client) patience() time.Duration { return max(wire.LifecycleTimeout, t.caller.Timeout) }
