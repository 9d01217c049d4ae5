package kvevents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// MaxQueue is the most events that may wait. It stands for 0 and for anything larger.
const MaxQueue = 1 << 22

// Config says where and what to publish.
type Config struct {
	// Endpoint is tcp://host:port, with * for any address of this machine and port 0 or *
	// for any free one, or ipc://path, with a path that begins with @ for one outside of the
	// file system.
	Endpoint string
	// BackendID names this pool in every event. Not empty.
	BackendID string
	// QueueCapacity is how many events may wait to be published, up to MaxQueue. Then the
	// oldest make way. 0 is MaxQueue.
	QueueCapacity int
	// LegacyCompat adds the fields under which inference engines publish the same.
	LegacyCompat bool
	// ObjectKey adds the key. Without it events on keys that are no hash say nothing, and are
	// left out.
	ObjectKey bool
	Logger    *slog.Logger // nil for none
}

func (c Config) capacity() int {
	if c.QueueCapacity <= 0 || c.QueueCapacity > MaxQueue {
		return MaxQueue
	}
	return c.QueueCapacity
}

// endpoint is where a socket is bound, in the terms of package net.
type endpoint struct{ network, address string }

// parseEndpoint understands what libzmq binds, but for names of network interfaces.
func parseEndpoint(text string) (endpoint, error) {
	bad := func(why string) (endpoint, error) {
		return endpoint{}, fmt.Errorf("endpoint %.300q %s; it is tcp://host:port, tcp://*:port or ipc:///path", text, why)
	}
	scheme, rest, ok := strings.Cut(text, "://")
	switch {
	case !ok || scheme != "tcp" && scheme != "ipc":
		return bad("is neither of TCP nor of a Unix socket")
	case scheme == "ipc" && (rest == "" || rest == "@"):
		return bad("has no path")
	case scheme == "ipc":
		return endpoint{"unix", rest}, nil
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		return bad("has no host and port")
	}
	if port == "*" {
		port = "0"
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return bad("has no port from 0 to 65535")
	}
	switch host {
	case "":
		return bad("has no host")
	case "*":
		host = "0.0.0.0"
	}
	return endpoint{"tcp", net.JoinHostPort(host, port)}, nil
}

// listen binds the endpoint. It replaces a Unix socket on which no process listens any more.
func (e endpoint) listen(ctx context.Context) (net.Listener, error) {
	if e.network == "unix" {
		e.removeStale(ctx)
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, e.network, e.address)
	if err == nil {
		return ln, nil
	}
	err = fmt.Errorf("KV events: cannot listen on %s: %w", e.address, err)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, errs.WithHint(err, "another process has it, maybe another master; choose another one with --kv_events_bind_endpoint")
	}
	return nil, errs.WithHint(err, "choose an address of this machine, or a path that can be written, with --kv_events_bind_endpoint")
}

// removeStale removes the socket of a process that is gone.
func (e endpoint) removeStale(ctx context.Context) {
	info, err := os.Lstat(e.address)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return
	}
	c, err := (&net.Dialer{}).DialContext(ctx, e.network, e.address)
	if err == nil {
		c.Close()
		return
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(e.address) // binding says what is wrong
	}
}
