package p2p

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// The range that a port is picked from when none is asked for.
const (
	MinPort = 15000
	MaxPort = 17000

	portTries = 500
)

// listen binds the port asked for, or for 0 a random one of the range.
func listen(ctx context.Context, host string, port int) (net.Listener, error) {
	var lc net.ListenConfig
	bind := func(port int) (net.Listener, error) {
		return lc.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	}
	if port != 0 {
		ln, err := bind(port)
		if err != nil {
			return nil, errs.WithHint(errs.New(errs.InvalidParams, "handshake daemon", "listen on port %d: %w", port, err),
				"pick another port, or 0 for a free one")
		}
		return ln, nil
	}
	var last error
	for range portTries {
		ln, err := bind(MinPort + rand.IntN(MaxPort-MinPort+1))
		if err == nil {
			return ln, nil
		}
		if last = err; ctx.Err() != nil {
			break
		}
	}
	return nil, errs.New(errs.Internal, "handshake daemon", "no port from %d to %d could be bound: %w", MinPort, MaxPort, last)
}
