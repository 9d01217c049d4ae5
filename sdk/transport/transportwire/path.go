package transportwire

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
	transportv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/transport/v1"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transportwire/internal/datapath"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// Path is a path of a Transport. transport.As finds transport.Railed where the manifest
// has CapRails.
type Path struct {
	t       *Client
	p       *datapath.Path
	id      uint64
	railed  bool
	closing chan struct{} // holds a token, the right to close
	stayed  bool          // the plugin did not close it on request; guarded by t.mu

	mu    sync.Mutex
	rails []transport.Rail
}

var _ transport.Path = (*Path)(nil)

// Dial implements transport.Transport.
func (t *Client) Dial(ctx context.Context, peer transport.Endpoint) (transport.Path, error) {
	op := t.caller.ID + ": dial"
	if err := t.usable("dial"); err != nil {
		return nil, err
	}
	if len(peer.Blob) == 0 || len(peer.Blob) > maxBlob {
		return nil, errs.New(errs.InvalidParams, op, "an endpoint of %d bytes, want 1 to %d", len(peer.Blob), maxBlob)
	}
	railed := t.has(transport.CapRails)
	inner, err := t.host.NewPath(t.caller.ID, pathSlots, railed)
	if err != nil {
		return nil, errs.WithClass(errs.ClassLocalDevice, op, err)
	}
	p := &Path{t: t, p: inner, railed: railed, closing: make(chan struct{}, 1)}
	p.closing <- struct{}{}
	if err := p.dial(ctx, peer); err != nil {
		inner.End()
		_ = inner.Settle(context.WithoutCancel(ctx)) // Nothing is in flight.
		return nil, err
	}
	t.mu.Lock()
	t.paths[p] = struct{}{}
	alive := t.state == running
	t.mu.Unlock()
	if !alive {
		_ = p.Close(ctx)
		return nil, errs.New(errs.UnavailableInCurrentStatus, op, "the transport was stopped meanwhile")
	}
	return p, nil
}

func (p *Path) dial(ctx context.Context, peer transport.Endpoint) error {
	token, err := p.t.hand(ctx, "dial", p.p.Descriptors()...)
	if err != nil {
		return err
	}
	m, err := wire.CallGiving(ctx, p.t.caller, p.t.patience(), "dial", p.t.rpc.Dial, &transportv1.DialRequest{
		Token: token, Endpoint: encodeEndpoint(peer), Slots: pathSlots, Grants: p.t.host.Grants,
	}, func(ctx context.Context, m *transportv1.DialResponse) {
		_, _ = wire.CallWithin(ctx, p.t.caller, p.t.patience(), "close path", p.t.rpc.ClosePath, &transportv1.ClosePathRequest{Path: m.GetPath()})
	})
	if err != nil {
		return err
	}
	p.id = m.GetPath()
	return p.setRails(m.GetRails())
}

// Unwrap returns the companion that transport.As finds.
func (p *Path) Unwrap() any {
	if p.railed {
		return &railed{p}
	}
	return nil
}

// Import implements transport.Path.
func (p *Path) Import(ctx context.Context, k transport.Key) (transport.RemoteID, error) {
	op := p.t.caller.ID + ": import key"
	if p.p.Closed() {
		return 0, p.p.ErrClosed()
	}
	if len(k) == 0 || len(k) > maxBlob {
		return 0, errs.New(errs.InvalidKey, op, "a key of %d bytes, want 1 to %d", len(k), maxBlob)
	}
	m, err := wire.CallWithin(ctx, p.t.caller, p.t.patience(), "import key", p.t.rpc.Import, &transportv1.ImportRequest{Path: p.id, Key: k})
	if p.p.Closed() {
		return 0, p.p.ErrClosed()
	}
	if err != nil {
		return 0, err
	}
	id := transport.RemoteID(m.GetRemote())
	if id == 0 {
		return 0, p.t.garbage("import key", errs.New(errs.InvalidKey, "", "the remote 0"))
	}
	p.p.Imported(id)
	return id, nil
}

// Submit implements transport.Path. Only the plugin knows how long a remote region is: a
// range past its end is a failed completion, class permanent.
func (p *Path) Submit(ops []transport.Op) (int, error) { return p.p.Submit(ops) }

// Reap implements transport.Path.
func (p *Path) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	return p.p.Reap(ctx, dst)
}

// maxUnclosed bounds the paths that a plugin fails to close. Each holds rings and five descriptors
// of the host until the process has ended.
const maxUnclosed = 16

// Close implements transport.Path. If the plugin does not answer in time, operations stay in flight
// until it does or its process has ended. The plugin still gets the request if ctx ends.
func (p *Path) Close(ctx context.Context) error {
	p.p.End()
	select {
	case <-p.closing:
	case <-ctx.Done():
		return wire.Lost(ctx, p.t.caller.ID+": close path", ctx.Err())
	}
	told := make(chan error, 1)
	go func() { // Bounded by t.patience.
		defer func() { p.closing <- struct{}{} }()
		told <- p.close(context.WithoutCancel(ctx))
	}()
	select {
	case err := <-told:
		return err
	case <-ctx.Done():
		return wire.Lost(ctx, p.t.caller.ID+": close path", ctx.Err())
	}
}

func (p *Path) close(ctx context.Context) error {
	p.t.mu.Lock()
	_, open := p.t.paths[p]
	p.t.mu.Unlock()
	if !open {
		return nil
	}
	if !p.t.host.Gone() {
		_, err := wire.CallWithin(ctx, p.t.caller, p.t.patience(), "close path", p.t.rpc.ClosePath, &transportv1.ClosePathRequest{Path: p.id})
		if err != nil && !p.t.host.Gone() {
			p.stays()
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, p.t.patience())
	defer cancel()
	if err := p.p.Settle(ctx); err != nil {
		return err
	}
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	delete(p.t.paths, p)
	if p.stayed {
		p.t.unclosed--
	}
	return nil
}

// stays records that the plugin did not close the path. It ends a plugin that leaves too many open.
func (p *Path) stays() {
	p.t.mu.Lock()
	if !p.stayed {
		p.stayed = true
		p.t.unclosed++
	}
	n := p.t.unclosed
	p.t.mu.Unlock()
	if n > maxUnclosed {
		p.t.host.Broken("it did not close %d paths", n)
	}
}

// railed are the companions of a path that has rails.
type railed struct{ p *Path }

var _ transport.Railed = (*railed)(nil)

// Rails implements transport.Railed.
func (r *railed) Rails() []transport.Rail {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return slices.Clone(r.p.rails)
}

// refresh asks the plugin for the rails again.
func (p *Path) refresh(ctx context.Context) {
	m, err := wire.Call(ctx, p.t.caller, "rails", p.t.rpc.Rails, &transportv1.RailsRequest{Path: p.id})
	if err == nil {
		_ = p.setRails(m.GetRails())
	}
}

func (p *Path) setRails(ms []*transportv1.Rail) error {
	if !p.railed {
		return nil
	}
	rails, err := decodeRails(ms)
	if err != nil {
		return p.t.garbage("rails", err)
	}
	p.p.Rails(rails)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rails = rails
	return nil
}

// upstream is the companion of a transport that talks to nodes of kvcache-ai/Mooncake.
type upstream struct{ t *Client }

var _ transport.Upstream = (*upstream)(nil)

// Join implements transport.Upstream. If the process does not answer, the supervisor replaces it
// and calls Join again.
func (u *upstream) Join(name string) {
	_, _ = wire.Call(context.Background(), u.t.caller, "join segment", u.t.rpc.JoinSegment, &transportv1.JoinSegmentRequest{Name: name})
}

// Segment implements transport.Upstream. If the plugin does not answer, it returns the last answer.
func (u *upstream) Segment() transport.Segment {
	m, err := wire.Call(context.Background(), u.t.caller, "segment", u.t.rpc.Segment, &transportv1.SegmentRequest{})
	u.t.mu.Lock()
	defer u.t.mu.Unlock()
	if err == nil {
		u.t.segment = decodeSegment(m.GetSegment())
	}
	return u.t.segment
}

// Translate implements transport.Upstream.
func (u *upstream) Translate(peer transport.PeerSegment) (transport.Endpoint, []transport.Key, error) {
	m, err := wire.Call(context.Background(), u.t.caller, "translate", u.t.rpc.Translate, &transportv1.TranslateRequest{
		Segment: encodeSegment(peer.Segment), Name: peer.Name, Host: peer.Host, Port: int32(peer.Port),
	})
	if err != nil {
		return transport.Endpoint{}, nil, err
	}
	ep, err := decodeEndpoint(m.GetEndpoint())
	if err == nil && len(m.GetKeys()) != len(peer.Buffers) {
		err = errs.New(errs.InvalidParams, "", "%d keys for %d buffers", len(m.GetKeys()), len(peer.Buffers))
	}
	keys := make([]transport.Key, len(m.GetKeys()))
	for i, k := range m.GetKeys() {
		if len(k) > maxBlob {
			err = errs.New(errs.InvalidKey, "", "a key of %d bytes", len(k))
		}
		if len(k) > 0 {
			keys[i] = bytes.Clone(k)
		}
	}
	if err != nil {
		return transport.Endpoint{}, nil, u.t.garbage("translate", err)
	}
	return ep, keys, nil
}

// Accept implements transport.Upstream.
func (u *upstream) Accept(ctx context.Context, request []byte) ([]byte, error) {
	if len(request) > maxAccept {
		return nil, errs.New(errs.InvalidParams, u.t.caller.ID+": accept", "a request of %d bytes, at most %d are allowed", len(request), maxAccept)
	}
	m, err := wire.CallWithin(ctx, u.t.caller, u.t.patience(), "accept", u.t.rpc.Accept, &transportv1.AcceptRequest{Request: request})
	if err != nil {
		return nil, err
	}
	return m.GetResponse(), nil
}
