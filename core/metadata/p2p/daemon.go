// Package p2p is the handshake between nodes: a small TCP service on every node that
// answers with its descriptor, takes notifications, and sets connections up. With
// P2PHANDSHAKE it is the whole directory.
//
// A connection carries one frame each way: a length of 8 bytes, little-endian, that counts
// what follows; one byte of type; JSON. Releases before types send the JSON alone.
package p2p

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/metadata"
)

// DaemonOptions are the settings of a Daemon; the zero value is usable.
type DaemonOptions struct {
	// BindHost is the address to listen on; empty for all.
	BindHost string
	// Port to listen on; 0 picks one from MinPort to MaxPort.
	Port int
	// MinPort and MaxPort, as CheckPortRange allows. Default 15000 and 17000.
	MinPort, MaxPort int
	// Backlog is how many connections may wait to be accepted. Default the system's limit.
	Backlog int
	// MaxConnections are served at once. A further one takes the place of the one that has waited
	// longest for its peer, and is closed where none does. Default 256.
	MaxConnections int
	// MaxLength of a frame, as CheckMaxLength allows. Default DefaultMaxLength.
	MaxLength int
	// ReadTimeout is how long a peer may take to send its frame. Default 10 s.
	ReadTimeout time.Duration
	// HandlerTimeout bounds a handler, and then the write of its answer. Default 10 s.
	HandlerTimeout time.Duration
	// LingerTimeout is how long the daemon waits for the peer to close after the answer.
	// Default 5 s.
	LingerTimeout time.Duration
	// Doors protects the port; nil for plaintext.
	Doors *doors.Doors
	// Logger, nil for none.
	Logger *slog.Logger
}

func (o DaemonOptions) withDefaults() DaemonOptions {
	ints := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	times := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	ints(&o.MinPort, MinPort)
	ints(&o.MaxPort, MaxPort)
	ints(&o.MaxConnections, 256)
	ints(&o.MaxLength, DefaultMaxLength)
	times(&o.ReadTimeout, 10*time.Second)
	times(&o.HandlerTimeout, 10*time.Second)
	times(&o.LingerTimeout, 5*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// ConnectionHandler answers a request to set a connection up. Both sides are JSON; an
// error answers null. Called from many goroutines.
type ConnectionHandler func(ctx context.Context, request []byte) ([]byte, error)

// NotifyHandler takes a notification; an error rejects it. Called from many goroutines.
type NotifyHandler func(ctx context.Context, n metadata.Notification) error

// Daemon answers handshakes, each connection on its own.
type Daemon struct {
	opts DaemonOptions
	ln   net.Listener

	descriptor atomic.Pointer[[]byte]
	connection atomic.Pointer[ConnectionHandler]
	notify     atomic.Pointer[NotifyHandler]

	ctx    context.Context
	cancel context.CancelFunc
	slots  chan struct{}
	wg     sync.WaitGroup

	// Used by the goroutine that accepts: when it last logged that the daemon is full, and how often
	// that was so since.
	told time.Time
	full int

	mu      sync.Mutex
	waiting *list.List // of net.Conn: those that wait for their peers, the longest wait first
}

// Listen starts a daemon; Stop ends it. InvalidParams for options out of their ranges and a
// port that is taken.
func Listen(ctx context.Context, opts DaemonOptions) (*Daemon, error) {
	opts = opts.withDefaults()
	if err := CheckMaxLength(opts.MaxLength); err != nil {
		return nil, err
	}
	plain, err := listen(ctx, opts)
	if err != nil {
		return nil, err
	}
	ln, err := opts.Doors.Guard(plain, config.DoorHandshake)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("handshake daemon: %w", err), plain.Close())
	}
	d := &Daemon{opts: opts, ln: ln, slots: make(chan struct{}, opts.MaxConnections), waiting: list.New()}
	d.ctx, d.cancel = context.WithCancel(context.WithoutCancel(ctx))
	d.wg.Go(d.accept)
	return d, nil
}

// Port returns the port that the daemon listens on.
func (d *Daemon) Port() int {
	if a, ok := d.ln.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

// SetDescriptor sets the JSON that peers get; nil for none. The daemon keeps it.
func (d *Daemon) SetDescriptor(json []byte) {
	if json == nil {
		d.descriptor.Store(nil)
		return
	}
	d.descriptor.Store(&json)
}

// SetConnectionHandler sets who sets connections up; without one peers get null.
func (d *Daemon) SetConnectionHandler(h ConnectionHandler) { d.connection.Store(&h) }

// SetNotifyHandler sets who takes notifications; without one they are rejected.
func (d *Daemon) SetNotifyHandler(h NotifyHandler) { d.notify.Store(&h) }

// Stop closes the listener, cuts the connections off and waits until ctx is done.
// Repeatable.
func (d *Daemon) Stop(ctx context.Context) error {
	d.cancel()
	d.ln.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.wg.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *Daemon) accept() {
	for {
		conn, err := d.ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // Out of descriptors, most likely: try again when some are free.
			d.opts.Logger.Warn("handshake daemon: accept", "error", err)
			select {
			case <-d.ctx.Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		if !d.admit(conn) {
			conn.Close()
			continue
		}
		wait := d.wait(conn)
		d.wg.Go(func() {
			defer func() { <-d.slots }()
			d.serve(conn, wait)
		})
	}
}

// fullEvery is the shortest time between two lines of the log that say that the daemon is full.
const fullEvery = time.Minute

// admit takes a slot for a connection. Where all are taken it closes the connection that has waited
// longest for its peer, so that slow peers, however many, do not keep others out.
func (d *Daemon) admit(conn net.Conn) bool {
	select {
	case d.slots <- struct{}{}:
		return true
	default:
	}
	d.mu.Lock()
	victim := d.waiting.Front()
	if victim != nil {
		d.waiting.Remove(victim)
	}
	d.mu.Unlock()
	d.full++
	if now := time.Now(); now.Sub(d.told) >= fullEvery {
		d.opts.Logger.Warn("handshake daemon: there are too many connections; the one that waits longest for its peer gives way to a new one",
			"peer", conn.RemoteAddr(), "limit", d.opts.MaxConnections, "since_last_line", d.full)
		d.told, d.full = now, 0
	}
	if victim == nil {
		return false
	}
	victim.Value.(net.Conn).Close() //nolint:forcetypeassert // Nothing else is in the list.
	select {
	case d.slots <- struct{}{}: // That of the victim, which ends by the close.
		return true
	case <-d.ctx.Done():
		return false
	}
}

// wait notes that a connection waits for its peer. The result ends that.
func (d *Daemon) wait(conn net.Conn) (over func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.waiting.PushBack(conn)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.waiting.Remove(e)
	}
}
