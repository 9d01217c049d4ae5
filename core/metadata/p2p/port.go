package p2p

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// The range that a port is picked from unless another is set.
const (
	MinPort = 15000
	MaxPort = 17000

	portTries = 500
)

// Ports that are not picked from: those of the system, and those that Linux gives to
// connections that go out.
const (
	lowestPort     = 1024
	firstEphemeral = 32768
	lastEphemeral  = 60999
)

// CheckPortRange reports a range of ports that a daemon may not pick from. InvalidParams.
func CheckPortRange(first, last int) error {
	bad := func(format string, args ...any) error {
		return errs.WithHint(errs.New(errs.InvalidParams, "handshake: range of ports", format, args...),
			"use a range within %d to %d or %d to 65535; the default is %d to %d", lowestPort, firstEphemeral-1, lastEphemeral+1, MinPort, MaxPort)
	}
	switch {
	case first > last:
		return bad("%d to %d is empty", first, last)
	case first < lowestPort || last > 65535:
		return bad("%d to %d is not within %d to 65535", first, last, lowestPort)
	case first <= lastEphemeral && last >= firstEphemeral:
		return bad("%d to %d overlaps the ports of outgoing connections, %d to %d", first, last, firstEphemeral, lastEphemeral)
	}
	return nil
}

// listen binds the port asked for, or for 0 a free one of the range, from a random place
// in it on.
func listen(ctx context.Context, opts DaemonOptions) (net.Listener, error) {
	if opts.Port != 0 {
		ln, err := bind(ctx, opts, opts.Port)
		if err != nil {
			return nil, errs.WithHint(errs.New(errs.InvalidParams, "handshake daemon", "listen on port %d: %w", opts.Port, err),
				"pick another port, or 0 for a free one")
		}
		return ln, nil
	}
	if err := CheckPortRange(opts.MinPort, opts.MaxPort); err != nil {
		return nil, err
	}
	var last error
	size := opts.MaxPort - opts.MinPort + 1
	start := rand.IntN(size)
	for i := range min(size, portTries) {
		ln, err := bind(ctx, opts, opts.MinPort+(start+i)%size)
		if err == nil {
			return ln, nil
		}
		if last = err; ctx.Err() != nil {
			break
		}
	}
	return nil, errs.WithHint(errs.New(errs.Internal, "handshake daemon", "no port from %d to %d could be bound: %w", opts.MinPort, opts.MaxPort, last),
		"set another range of ports")
}

func bind(ctx context.Context, opts DaemonOptions, port int) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", net.JoinHostPort(opts.BindHost, strconv.Itoa(port)))
	if err != nil || opts.Backlog <= 0 {
		return ln, err
	}
	if err := setBacklog(ln, opts.Backlog); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// setBacklog listens again, which the system takes as a change of the limit.
func setBacklog(ln net.Listener, n int) error {
	sys, ok := ln.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	err = raw.Control(func(fd uintptr) { result = syscall.Listen(int(fd), n) })
	return errors.Join(err, result)
}
