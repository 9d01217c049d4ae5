package p2p

import (
	"context"
	"log/slog"
	"sync"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Options are the settings of a Directory.
type Options struct {
	// LocalName is this node's "host" or "host:port"; only the host is kept, it must be
	// one that peers can reach.
	LocalName string
	// Daemon's Port becomes the port of the name.
	Daemon DaemonOptions
	// DefaultPort is where peers listen whose name has no port. Default
	// metadata.DefaultPort.
	DefaultPort int
	// Dialer asks peers.
	Dialer Dialer
	// Logger, nil for none.
	Logger *slog.Logger
}

// Directory is the directory without a metadata service: a name is the address of the
// node's daemon.
type Directory struct {
	name        string
	daemon      *Daemon
	dialer      Dialer
	defaultPort int

	mu  sync.RWMutex
	own []byte
}

var (
	_ metadata.Directory = (*Directory)(nil)
	_ metadata.Peers     = (*Directory)(nil)
)

// Open starts the daemon. Close ends it.
func Open(ctx context.Context, opts Options) (*Directory, error) {
	host, asked, err := metadata.ParseNamePort(opts.LocalName, 0)
	if err != nil {
		return nil, err
	}
	if opts.DefaultPort == 0 {
		opts.DefaultPort = metadata.DefaultPort
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if err := metadata.CheckAdvertised(host); err != nil {
		return nil, err
	}
	if opts.Daemon.Logger == nil {
		opts.Daemon.Logger = opts.Logger
	}
	daemon, err := Listen(ctx, opts.Daemon)
	if err != nil {
		return nil, err
	}
	name := metadata.JoinName(host, daemon.Port())
	if asked != 0 && asked != daemon.Port() {
		opts.Logger.Info("metadata: without a metadata service a node is called by the port of its handshake daemon, not by the port of its own name",
			"asked for", opts.LocalName, "name", name)
	}
	return &Directory{name: name, daemon: daemon, dialer: opts.Dialer, defaultPort: opts.DefaultPort}, nil
}

// Daemon returns the daemon, for its handlers.
func (d *Directory) Daemon() *Daemon { return d.daemon }

// LocalName implements metadata.Directory.
func (d *Directory) LocalName() string { return d.name }

// Publish implements metadata.Directory. Peers see it at once.
func (d *Directory) Publish(_ context.Context, desc *metadata.Descriptor) error {
	if desc.Name != d.name {
		return errs.New(errs.InvalidParams, "metadata: publish", "the descriptor is of %q, this node is %q", desc.Name, d.name)
	}
	json, err := metadata.EncodeDescriptor(desc)
	if err != nil {
		return err
	}
	if len(json) >= d.daemon.opts.MaxLength-1 {
		return errs.WithHint(errs.New(errs.InvalidParams, "metadata: publish", "the descriptor has %d bytes, peers take %d", len(json), d.daemon.opts.MaxLength),
			"register fewer, larger ranges")
	}
	d.set(json)
	return nil
}

func (d *Directory) set(json []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.own = json
	d.daemon.SetDescriptor(json)
}

// Lookup implements metadata.Directory. It asks the node itself, which therefore must run.
func (d *Directory) Lookup(ctx context.Context, name string) (*metadata.Descriptor, error) {
	a, err := d.Address(ctx, name)
	if err != nil {
		return nil, err
	}
	d.mu.RLock()
	own := d.own
	d.mu.RUnlock()
	if name == d.name {
		if own == nil {
			return nil, metadata.ErrNotFound
		}
		return metadata.DecodeDescriptor(own)
	}
	desc, err := d.dialer.Fetch(ctx, a, own)
	if err != nil {
		return nil, err
	}
	if desc.Name == "" {
		desc.Name = name
	}
	return desc, nil
}

// Withdraw implements metadata.Directory.
func (d *Directory) Withdraw(context.Context) error {
	d.set(nil)
	return nil
}

// Close implements metadata.Directory.
func (d *Directory) Close(ctx context.Context) error {
	d.set(nil)
	return d.daemon.Stop(ctx)
}

// Address implements metadata.Peers.
func (d *Directory) Address(_ context.Context, name string) (metadata.Address, error) {
	host, port, err := metadata.ParseNamePort(name, d.defaultPort)
	return metadata.Address{Host: host, Port: port}, err
}

// Probe implements metadata.Peers.
func (d *Directory) Probe(ctx context.Context, name string) error {
	a, err := d.Address(ctx, name)
	if err != nil {
		return err
	}
	return d.dialer.Probe(ctx, a)
}

// Notify implements metadata.Peers.
func (d *Directory) Notify(ctx context.Context, name string, n metadata.Notification) error {
	a, err := d.Address(ctx, name)
	if err != nil {
		return err
	}
	return d.dialer.Notify(ctx, a, n)
}
