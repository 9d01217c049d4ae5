// Package central is the directory on a metadata service: each node keeps two keys there,
// its descriptor and the address of its handshake daemon, under its name.
package central

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/p2p"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Options are the settings of a Directory.
type Options struct {
	// LocalName is the name to publish under, "host:port" by custom.
	LocalName string
	// Host is where peers reach the handshake daemon; empty for the host of LocalName.
	Host string
	// Keys names the keys.
	Keys metadata.Keys
	// Daemon and Dialer are the handshake.
	Daemon p2p.DaemonOptions
	Dialer p2p.Dialer
	// Refresh is how often the directory looks whether the service still has this node,
	// and publishes again when it was restarted. Default 5 s; negative for never.
	Refresh time.Duration
	// ProbeTimeout is how long the holder of a taken name may take to answer. Default 2 s.
	ProbeTimeout time.Duration
	// OnClose runs at the end of Close, for the store's connections.
	OnClose func()
	// Logger, nil for none.
	Logger *slog.Logger
}

// Directory publishes one node in a Store.
type Directory struct {
	opts    Options
	store   metadata.Store
	daemon  *p2p.Daemon
	address []byte // of the daemon, as published

	mu         sync.Mutex // held over a whole Publish, Withdraw or refresh
	descriptor []byte     // as published, nil when nothing is
	claimed    bool       // the address may be in the store
	closed     bool

	stop context.CancelFunc
	wg   sync.WaitGroup
}

var (
	_ metadata.Directory = (*Directory)(nil)
	_ metadata.Peers     = (*Directory)(nil)
)

// Open starts the handshake daemon of a node whose directory is store. Close ends it.
func Open(ctx context.Context, store metadata.Store, opts Options) (*Directory, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Refresh == 0 {
		opts.Refresh = 5 * time.Second
	}
	if opts.ProbeTimeout <= 0 {
		opts.ProbeTimeout = 2 * time.Second
	}
	if opts.Daemon.Logger == nil {
		opts.Daemon.Logger = opts.Logger
	}
	host, _, err := metadata.ParseName(opts.LocalName)
	if err != nil {
		return nil, err
	}
	if opts.Host == "" {
		opts.Host = host
	}
	if err := metadata.CheckAdvertised(opts.Host); err != nil {
		return nil, err
	}
	daemon, err := p2p.Listen(ctx, opts.Daemon)
	if err != nil {
		return nil, err
	}
	d := &Directory{opts: opts, store: store, daemon: daemon}
	if d.address, err = metadata.EncodeAddress(metadata.Address{Host: opts.Host, Port: daemon.Port()}); err != nil {
		return nil, errors.Join(err, daemon.Stop(ctx))
	}
	keep, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stop = stop
	if opts.Refresh > 0 {
		d.wg.Go(func() { d.keep(keep) })
	}
	return d, nil
}

// Daemon returns the handshake daemon, for its handlers.
func (d *Directory) Daemon() *p2p.Daemon { return d.daemon }

// LocalName implements metadata.Directory.
func (d *Directory) LocalName() string { return d.opts.LocalName }

// Publish implements metadata.Directory. SegmentAlreadyExists when a living node holds the
// name; the name of a dead one is taken over.
func (d *Directory) Publish(ctx context.Context, desc *metadata.Descriptor) error {
	if desc.Name != d.opts.LocalName {
		return errs.New(errs.InvalidParams, "metadata: publish", "the descriptor is of %q, this node is %q", desc.Name, d.opts.LocalName)
	}
	json, err := metadata.EncodeDescriptor(desc)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errs.New(errs.UnavailableInCurrentStatus, "metadata: publish", "the directory is closed")
	}
	if err := d.put(ctx, json); err != nil {
		return err
	}
	d.descriptor = json
	d.daemon.SetDescriptor(json)
	return nil
}

// put writes both keys, the address first: a peer that finds the descriptor can find the node.
func (d *Directory) put(ctx context.Context, descriptor []byte) error {
	if err := d.claim(ctx); err != nil {
		return err
	}
	d.claimed = true
	return d.store.Put(ctx, d.opts.Keys.Segment(d.opts.LocalName), descriptor)
}

// Lookup implements metadata.Directory.
func (d *Directory) Lookup(ctx context.Context, name string) (*metadata.Descriptor, error) {
	json, err := d.store.Get(ctx, d.opts.Keys.Segment(name))
	if err != nil {
		return nil, err
	}
	desc, err := metadata.DecodeDescriptor(json)
	if err != nil {
		return nil, err
	}
	if desc.Name == "" {
		desc.Name = name
	}
	return desc, nil
}

// Withdraw implements metadata.Directory. Keys that another node has taken over stay.
func (d *Directory) Withdraw(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.withdraw(ctx)
}

func (d *Directory) withdraw(ctx context.Context) error {
	if !d.claimed {
		return nil
	}
	holder, err := d.store.Get(ctx, d.addressKey())
	switch {
	case errors.Is(err, metadata.ErrNotFound) || err == nil && string(holder) != string(d.address):
		d.forget()
		return nil
	case err != nil:
		return err
	}
	for _, key := range []string{d.opts.Keys.Segment(d.opts.LocalName), d.addressKey()} {
		if err := d.store.Delete(ctx, key); err != nil && !errors.Is(err, metadata.ErrNotFound) {
			return err
		}
	}
	d.forget()
	return nil
}

func (d *Directory) forget() {
	d.descriptor, d.claimed = nil, false
	d.daemon.SetDescriptor(nil)
}

func (d *Directory) addressKey() string { return d.opts.Keys.RPCMeta(d.opts.LocalName) }

// Close implements metadata.Directory. The daemon ends also where the service cannot be
// reached to withdraw; then the keys stay until the name is used again.
func (d *Directory) Close(ctx context.Context) error {
	d.stop()
	d.mu.Lock()
	var err error
	if !d.closed {
		d.closed = true
		err = d.withdraw(ctx)
	}
	d.mu.Unlock()
	d.wg.Wait()
	err = errors.Join(err, d.daemon.Stop(ctx))
	if d.opts.OnClose != nil {
		d.opts.OnClose()
	}
	return err
}

// Address implements metadata.Peers.
func (d *Directory) Address(ctx context.Context, name string) (metadata.Address, error) {
	json, err := d.store.Get(ctx, d.opts.Keys.RPCMeta(name))
	if err != nil {
		return metadata.Address{}, err
	}
	return metadata.DecodeAddress(json)
}

// Probe implements metadata.Peers.
func (d *Directory) Probe(ctx context.Context, name string) error {
	a, err := d.Address(ctx, name)
	if err != nil {
		return err
	}
	return d.opts.Dialer.Probe(ctx, a)
}

// Notify implements metadata.Peers.
func (d *Directory) Notify(ctx context.Context, name string, n metadata.Notification) error {
	a, err := d.Address(ctx, name)
	if err != nil {
		return err
	}
	return d.opts.Dialer.Notify(ctx, a, n)
}
