package transports

import (
	"context"
	"slices"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// bug is how a transport is broken.
type bug struct {
	wrong string
	finds []string
	bend  func(*bent)
}

// one names checks.
func one(checks ...string) []string { return checks }

// bent is a transport with some of its methods replaced.
type bent struct {
	transport.Transport
	port       int
	start      func(context.Context, plugin.Host) error
	stop       func(context.Context) error
	endpoint   func() transport.Endpoint
	register   func(context.Context, transport.Region) (transport.Key, error)
	deregister func(context.Context, transport.RegionID) error
	dial       func(context.Context, transport.Endpoint) (transport.Path, error)
}

func (b *bent) Start(ctx context.Context, h plugin.Host) error {
	if b.start != nil {
		return b.start(ctx, h)
	}
	return b.Transport.Start(ctx, h)
}

func (b *bent) Stop(ctx context.Context) error {
	if b.stop != nil {
		return b.stop(ctx)
	}
	return b.Transport.Stop(ctx)
}

func (b *bent) Endpoint() transport.Endpoint {
	if b.endpoint != nil {
		return b.endpoint()
	}
	return b.Transport.Endpoint()
}

func (b *bent) Register(ctx context.Context, r transport.Region) (transport.Key, error) {
	if b.register != nil {
		return b.register(ctx, r)
	}
	return b.Transport.Register(ctx, r)
}

func (b *bent) Deregister(ctx context.Context, id transport.RegionID) error {
	if b.deregister != nil {
		return b.deregister(ctx, id)
	}
	return b.Transport.Deregister(ctx, id)
}

func (b *bent) Dial(ctx context.Context, e transport.Endpoint) (transport.Path, error) {
	if b.dial != nil {
		return b.dial(ctx, e)
	}
	return b.Transport.Dial(ctx, e)
}

// bentPath is a path with some of its methods replaced. It hides the extras of the path, so that
// each completion goes through Reap.
type bentPath struct {
	inner   transport.Path
	imports func(context.Context, transport.Key) (transport.RemoteID, error)
	submit  func([]transport.Op) (int, error)
	reap    func(context.Context, []transport.Completion) (int, error)
	close   func(context.Context) error
}

func (b *bentPath) Import(ctx context.Context, k transport.Key) (transport.RemoteID, error) {
	if b.imports != nil {
		return b.imports(ctx, k)
	}
	return b.inner.Import(ctx, k)
}

func (b *bentPath) Submit(ops []transport.Op) (int, error) {
	if b.submit != nil {
		return b.submit(ops)
	}
	return b.inner.Submit(ops)
}

func (b *bentPath) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	if b.reap != nil {
		return b.reap(ctx, dst)
	}
	return b.inner.Reap(ctx, dst)
}

func (b *bentPath) Close(ctx context.Context) error {
	if b.close != nil {
		return b.close(ctx)
	}
	return b.inner.Close(ctx)
}

// paths bends each path of a transport.
func paths(bend func(*bentPath)) func(*bent) {
	return func(b *bent) {
		b.dial = func(ctx context.Context, e transport.Endpoint) (transport.Path, error) {
			p, err := b.Transport.Dial(ctx, e)
			if err != nil {
				return nil, err
			}
			x := &bentPath{inner: p}
			bend(x)
			return x, nil
		}
	}
}

// submits bends each submitted operation.
func submits(change func(*transport.Op)) func(*bent) {
	return paths(func(p *bentPath) {
		p.submit = func(ops []transport.Op) (int, error) {
			ops = slices.Clone(ops)
			for i := range ops {
				change(&ops[i])
			}
			return p.inner.Submit(ops)
		}
	})
}

// completes bends each reaped completion.
func completes(change func(*transport.Completion)) func(*bent) {
	return paths(func(p *bentPath) {
		p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
			n, err := p.inner.Reap(ctx, dst)
			for i := range dst[:n] {
				change(&dst[i])
			}
			return n, err
		}
	})
}
