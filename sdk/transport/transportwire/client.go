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
	"github.com/mooncake-go/mooncake/sdk/internal/memwire"
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
	fds    *memwire.Outbox

	changed chan struct{}
	tokens  atomic.Uint64

	mu        sync.Mutex
	manifest  plugin.Manifest
	state     state
	quiet     bool // the plugin answered Stop: it holds no regions
	endpoint  transport.Endpoint
	segment   transport.Segment // the last answer of the plugin
	vm        bool              // the plugin can copy from and to this process
	paths     map[*Path]struct{}
	watch     *wire.Watch
	elsewhere int // regions that have another address in the plugin
	unclosed  int // paths that the plugin did not close on request
	leaving   map[transport.RegionID]*leave
	allowing  map[transport.RegionID]func() // each ends allow

	// probe is a nonce that the plugin reads and an answer that it writes, to prove that it can. It
	// must not be on a stack, because stacks move.
	probe *[2][nonceSize]byte

	sharing chan struct{} // holds a token, the right to make the stage
	stage   *shm.Memory
}

// state is where a Client is in its lifecycle.
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

// Options are the options that only clients of transports have.
type Options struct {
	// Overdue is how long after its deadline an operation may be in flight before Kill is called; 0
	// is DefaultOverdue.
	Overdue time.Duration
	// Foreign is how the plugin reaches memory without a descriptor.
	Foreign Foreign
	// Staging is the size in bytes of the stage, through which such memory goes; 0 is
	// DefaultStaging.
	Staging int
}

// Foreign is a choice of how a transport in a process of its own reaches memory of the host
// that has no descriptor.
type Foreign uint8

// The choices.
const (
	// ForeignAuto: the plugin copies if the kernel permits it, otherwise the host does.
	ForeignAuto Foreign = iota
	// ForeignVM: the plugin copies, with process_vm_readv and process_vm_writev. If the kernel
	// forbids it, memory without a descriptor is refused.
	ForeignVM
	// ForeignStaging: the host copies.
	ForeignStaging
	// ForeignRefuse: memory without a descriptor is refused.
	ForeignRefuse
)

// NewClient returns a client, which sends nothing before Describe.
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
		fds: memwire.NewOutbox(c.Data), changed: make(chan struct{}, 1), paths: map[*Path]struct{}{}, sharing: make(chan struct{}, 1),
		probe: new([2][nonceSize]byte), leaving: map[transport.RegionID]*leave{}, allowing: map[transport.RegionID]func(){},
	}
	t.sharing <- struct{}{}
	t.host = datapath.NewHost(datapath.HostOptions{
		Name: c.ID.String(), Break: c.Kill, Fail: fromFailure, Overdue: o.Overdue, Limit: OpTimeout,
	})
	// What is lost between host and plugin says nothing about the peer.
	t.caller.Class, t.caller.Down = errs.ClassTransientPath, t.host.Down
	t.caller.Garbled = func(op, text string) {
		t.host.Broken("its answer to %s: %s", strings.TrimPrefix(op, t.caller.ID+": "), text)
	}
	return t
}

// Describe asks the plugin for its manifest and validates it. The client uses the capabilities in
// it from then on.
func (t *Client) Describe(ctx context.Context) (wire.Description, error) {
	m, err := t.Lifecycle.Describe(ctx)
	if err != nil {
		return m, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == fresh {
		t.manifest = m.Manifest
	}
	return m, nil
}

// has reports whether the plugin has a capability.
func (t *Client) has(c plugin.Capability) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.manifest.Has(c)
}

// Unwrap returns the companion that transport.As finds: transport.Upstream, if the manifest names
// it.
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
	t.host.LocalAny, t.host.Grants = localAny, t.has(transport.CapGrants)
	if localAny && !refuse {
		// Share now, because Submit cannot wait for it.
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

// join finds out whether the plugin can copy from and to this process, and at which endpoint peers
// reach it.
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

// garbage ends a process that gave an invalid answer.
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
	t.forbidAll()
	t.host.Stopped()
	var closing sync.WaitGroup
	for _, p := range paths {
		closing.Go(func() { _ = p.Close(ctx) }) // Stop of the plugin reports a path that stays open.
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

// Ended tells the client that the process has ended and was waited for, so that it no longer
// touches memory. Operations in flight then complete by the rules of the contract. Those that the
// plugin completed keep their result. A Read that it did not complete has failed, and so has a
// Write that it had not taken. A Write that it had taken is Quarantined. From then on all calls but
// those that release resources fail with class transient-path. Ended may be called again.
func (t *Client) Ended() {
	t.host.Ended()
	t.mu.Lock()
	w := t.watch
	t.watch = nil
	t.mu.Unlock()
	w.Cancel() // It ends by itself.
	t.forbidAll()
	t.unshare()
}

// Figures returns figures about the data path to the plugin. operations counts those that ended,
// and bytes_moved their bytes. bytes_copied counts bytes that were copied between the host's memory
// and the plugin; it is 0 if all memory is shared. memory is how the plugin has reached memory so
// far ("mapped", "vm", "staging"), and foreign how it reaches memory without a descriptor ("vm",
// "staging", "refused"). regions_elsewhere counts the regions whose address in the plugin differs
// from that in the host. regions and paths count what is open.
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

// PluginStats are the counters of a plugin.
type PluginStats struct {
	// Operations counts the operations that it took, Copied the bytes that it copied between the
	// host's memory and its own.
	Operations, Copied uint64
	Regions, Paths     uint64
	// Goroutines counts those of its process, 0 for one that is not written in Go.
	Goroutines uint64
}

// Stats asks the plugin for its counters.
func (t *Client) Stats(ctx context.Context) (PluginStats, error) {
	r, err := wire.Call(ctx, t.caller, "stats", t.rpc.Stats, &transportv1.StatsRequest{})
	return PluginStats{Operations: r.GetOperations(), Copied: r.GetBytesCopied(), Regions: r.GetRegions(), Paths: r.GetPaths(), Goroutines: r.GetGoroutines()}, err
}

// usable returns the reason to refuse a call, or nil.
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

// patience is the time limit of calls that may take a transport long.
func (t *Client) patience() time.Duration { return max(wire.LifecycleTimeout, t.caller.Timeout) }
