package transporttest_test

import (
	"context"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/faulty"
)

// devices join two machines of the reference network. fault says how paths over them are broken; it
// is empty for correct paths.
type devices struct {
	fault string
	mu    sync.Mutex
	down  map[string]bool
}

// names are the names of the devices; rail i+1 uses the i-th device on both sides.
var names = []string{"east", "west"}

// railedPath gives a path rails.
type railedPath struct {
	transport.Path
	of  *devices
	own []transport.Rail // the shared slice of the fault "the slice of rails is shared"
}

func (p *railedPath) Rails() []transport.Rail {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	var out []transport.Rail
	if p.of.fault == "the slice of rails is shared" {
		out = p.own[:0]
	}
	for i, name := range names {
		out = append(out, transport.Rail{ID: transport.RailID(i + 1), Local: name, Remote: name, Up: !p.of.down[name]})
	}
	p.own = out
	return out
}

// Submit refuses operations over a rail that does not exist.
func (p *railedPath) Submit(ops []transport.Op) (int, error) {
	for i, o := range ops {
		if int(o.Rail) > len(names) && p.of.fault != "any rail will do" {
			return i, errs.WithClass(errs.ClassPermanent, "submit", errs.New(errs.InvalidParams, "", "there is no rail %d", o.Rail))
		}
		if o.Rail == 2 && p.of.fault == "the second rail moves nothing" {
			o.Local = o.Local[:0]
		}
		if n, err := p.Path.Submit([]transport.Op{o}); n == 0 {
			return i, err
		}
	}
	return len(ops), nil
}

// decide fails operations whose rail is down.
func (d *devices) decide(o transport.Op) faulty.Effect {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o.Rail == 0 || int(o.Rail) > len(names) || !d.down[names[o.Rail-1]] || d.fault == "a rail that is down moves bytes" {
		return faulty.Effect{}
	}
	class := errs.ClassTransientPath
	if d.fault == "a rail that is down is down forever" {
		class = errs.ClassPermanent
	}
	return faulty.Effect{Err: errs.WithClass(class, "", errs.New(errs.TransferFail, "", "the rail is down"))}
}

// take takes a device down.
func (d *devices) take(_ conformance.TB, device string) (up func()) {
	set := func(down bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.down[device] = down
	}
	set(true)
	return func() { set(false) }
}

// withRails is the reference transport over two devices.
func withRails(fault string, finds ...string) bug {
	d := &devices{fault: fault, down: map[string]bool{}}
	return bug{
		finds: finds,
		bend: func(b *bent) {
			plan := faulty.NewPlan()
			plan.Decide(d.decide)
			b.Transport = faulty.Wrap(b.Transport, plan)
			b.dial = func(ctx context.Context, e transport.Endpoint) (transport.Path, error) {
				p, err := b.Transport.Dial(ctx, e)
				if err != nil {
					return nil, err
				}
				return &railedPath{Path: p, of: d}, nil
			}
		},
		manifest: func(m *plugin.Manifest) { m.Capabilities = append(m.Capabilities, transport.CapRails) },
		options: func() []transporttest.Option {
			return []transporttest.Option{transporttest.WithDeviceDown(d.take), transporttest.WithLimit(8 << 20), transporttest.WithConfig(wide)}
		},
	}
}

// railBugs are bugs of transports with several devices.
func railBugs() map[string]bug {
	out := map[string]bug{}
	for fault, check := range map[string]string{
		"the slice of rails is shared":        "content over each rail",
		"the second rail moves nothing":       "content over each rail",
		"any rail will do":                    "a rail that does not exist",
		"a rail that is down moves bytes":     "a device goes down and comes back",
		"a rail that is down is down forever": "a device goes down and comes back",
	} {
		b := withRails(fault, check)
		b.also = []string{"a device goes down and comes back"}
		out[fault] = b
	}
	return out
}
