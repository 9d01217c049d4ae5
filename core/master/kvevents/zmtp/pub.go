// Package zmtp is a publisher that speaks ZMTP 3.1, the protocol of ZeroMQ: what a PUB
// socket is to SUB sockets of libzmq 4 and of every binding above it. Mechanism NULL, no
// authentication.
//
// It publishes one stream: every message begins with an empty topic, so that a subscriber
// gets all of it, by subscribing to "", or nothing.
//
// Messages are kept once, in a log of bounded length and size, and every subscriber reads at its
// own pace. A subscriber that falls behind the end of the log goes on with the oldest message
// that is left. Publishing never waits for a subscriber. So a million messages for a subscriber
// that does not read cost no more than for one that does.
//
// github.com/go-zeromq/zmq4 (v0.17) does not hold these bounds. Its publisher has one queue for all
// subscribers: if one does not read, every one loses messages, or without a high-water mark the queue
// grows without bound. It allocates a frame of whatever size a peer announces. It greets one peer after
// the other without a deadline, so that a silent one keeps others out, and has no limit on peers.
package zmtp

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the bounds of a Pub. Zero fields take the defaults.
type Options struct {
	// Messages and Bytes bound what is kept for subscribers that are behind. Defaults:
	// 10000, libzmq's high-water mark as existing publishers set it, and 64 MiB.
	Messages, Bytes int
	// Subscribers bounds the connections, the ones that are still shaking hands included.
	// Default 256; further ones are closed at once.
	Subscribers int
	// Handshake is how long a peer may take to introduce itself. Default 10 s.
	Handshake time.Duration
	// Stall is how long a subscriber may take for what is written to it at a time, at most 64
	// messages. Default 60 s. Then it is disconnected, and connects again by itself.
	Stall time.Duration
	// Logger, nil for none.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		field *int
		value int
	}{{&o.Messages, 10000}, {&o.Bytes, 64 << 20}, {&o.Subscribers, 256}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if o.Handshake <= 0 {
		o.Handshake = 10 * time.Second
	}
	if o.Stall <= 0 {
		o.Stall = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Pub publishes messages to its subscribers. Make one with New. It is safe for concurrent use.
type Pub struct {
	opts   Options
	log    *log
	missed atomic.Uint64
	subs   atomic.Int64

	mu     sync.Mutex
	ln     net.Listener
	conns  map[net.Conn]struct{}
	closed bool
	work   sync.WaitGroup
}

// New returns a Pub that no subscriber can reach yet.
func New(opts Options) *Pub {
	opts = opts.withDefaults()
	return &Pub{opts: opts, log: newLog(opts.Messages, opts.Bytes), conns: map[net.Conn]struct{}{}}
}

// Serve takes subscribers from ln in the background, until Close, which also closes ln. It
// is called once.
func (p *Pub) Serve(ln net.Listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		ln.Close()
		return
	}
	p.ln = ln
	p.work.Go(func() { p.accept(ln) })
}

// Publish sends a message: frames encoded with AppendFrame, the first of them empty. It keeps the
// message, never blocks and never fails. Every current subscriber receives the message unless it
// falls too far behind.
func (p *Pub) Publish(message []byte) { p.log.add(message) }

// Subscribers returns how many subscribers there are.
func (p *Pub) Subscribers() int { return int(p.subs.Load()) }

// Missed returns how many messages subscribers lost because they were too slow, each
// counted for every subscriber that lost it, when that reads on.
func (p *Pub) Missed() uint64 { return p.missed.Load() }

// Close takes no more subscribers and no more messages, lets the subscribers take what is
// there until ctx ends, and cuts them off then. When it returns nothing is left running.
func (p *Pub) Close(ctx context.Context) {
	p.mu.Lock()
	p.closed = true
	if p.ln != nil {
		p.ln.Close()
	}
	p.mu.Unlock()
	p.log.close()
	cut := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for c := range p.conns {
			c.Close()
		}
	})
	p.work.Wait()
	cut()
}

// Accept fails for want of file descriptors, for example; that passes.
const acceptPause = 100 * time.Millisecond

func (p *Pub) accept(ln net.Listener) {
	for {
		c, err := ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			p.opts.Logger.Warn("a subscriber could not be accepted", "error", err)
			time.Sleep(acceptPause)
		default:
			p.Handle(c)
		}
	}
}

// Handle serves one connection in the background and closes it in the end. There may be
// Options.Subscribers of them; another one is closed at once.
func (p *Pub) Handle(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.conns) >= p.opts.Subscribers {
		if !p.closed {
			p.opts.Logger.Warn("a subscriber was turned away: there are too many", "peer", peer(c), "most", p.opts.Subscribers)
		}
		c.Close()
		return
	}
	p.conns[c] = struct{}{}
	p.work.Go(func() {
		err := p.serve(c)
		c.Close()
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
		p.opts.Logger.Info("a subscriber left", "peer", peer(c), "reason", err)
	})
}

// peer names the other side; a Unix socket has no name.
func peer(c net.Conn) string {
	if a := c.RemoteAddr(); a != nil {
		return a.String()
	}
	return ""
}
