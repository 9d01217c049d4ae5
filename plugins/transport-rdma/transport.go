package rdma

import (
	"context"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Endpoint implements transport.Transport.
func (n *node) Endpoint() transport.Endpoint {
	n.mu.Lock()
	began := !n.life.New() && n.env.Incarnation != 0
	n.mu.Unlock()
	if !began {
		return transport.Endpoint{}
	}
	text, err := n.endpoint()
	if err != nil { // Start has tried with the longest form.
		n.env.Log.Error("endpoint", "error", err)
		return transport.Endpoint{}
	}
	return transport.Endpoint{Blob: text, Incarnation: n.env.Incarnation}
}

// Dial implements transport.Transport. It returns at once; the first operation connects.
func (n *node) Dial(_ context.Context, to transport.Endpoint) (transport.Path, error) {
	const op = "transport/rdma: dial"
	if err := n.begin(op); err != nil {
		return nil, err
	}
	defer n.env.Traffic.Done()
	e, err := blob.DecodeEndpoint(to.Blob)
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, op, err)
	}
	if e.Incarnation != to.Incarnation {
		return nil, errs.New(errs.InvalidParams, op, "incarnation %d does not belong to this endpoint", to.Incarnation)
	}
	if e.Upstream() && !n.cfg.Upstream {
		return nil, errs.New(errs.NotSupported, op, "%s is a node of another implementation, and upstream is false", e.Server)
	}
	p := newPath(n, &e, string(to.Blob))
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.life.Require(op); err != nil {
		return nil, err
	}
	p.takeRails()
	n.paths[p] = struct{}{}
	return p, nil
}

// Register implements transport.Transport.
func (n *node) Register(_ context.Context, in transport.Region) (transport.Key, error) {
	if err := n.begin("transport/rdma: register"); err != nil {
		return nil, err
	}
	defer n.env.Traffic.Done()
	return n.regions.Register(in)
}

// Deregister implements transport.Transport.
func (n *node) Deregister(ctx context.Context, id transport.RegionID) error {
	if err := n.begin("transport/rdma: deregister"); err != nil {
		return err
	}
	defer n.env.Traffic.Done()
	return n.regions.Deregister(ctx, id)
}
