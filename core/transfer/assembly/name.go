package assembly

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/ports"
	"github.com/mooncake-go/mooncake/core/metadata/open"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// nameSearch bounds the search for a free port, and retryAfter is the pause before the search begins
// again.
const (
	nameSearch = 5 * time.Second
	retryAfter = 100 * time.Millisecond
)

// localName completes store.local_hostname to host:port with a port of the configured range on which
// no process listens. The search begins at a random port. The claim, nil for a name that has its
// port, keeps other processes of the host from choosing the same name; the caller closes it when the
// name is no longer used.
func localName(ctx context.Context, s config.Store) (name string, claim io.Closer, err error) {
	host := s.LocalHostname
	if host == "" {
		return "", nil, errs.New(errs.InvalidParams, "store.local_hostname", "it is empty; give this machine's name or address")
	}
	host, port := splitName(host)
	host = ports.Concrete(host)
	if port != "" {
		return net.JoinHostPort(host, port), nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, nameSearch)
	defer cancel()
	for try := range max(s.SetupRetries, 1) {
		if try > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(retryAfter):
			}
		}
		if port, claim, ok := claimPort(ctx, s.ClientMinPort, s.ClientMaxPort); ok {
			return net.JoinHostPort(host, strconv.Itoa(port)), claim, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return "", nil, errs.New(errs.Internal, "store.local_hostname",
		"no port from %d to %d is free on this machine; give %q with a port, or another range with store.client_min_port and store.client_max_port", s.ClientMinPort, s.ClientMaxPort, host)
}

// splitName splits host:port; the port is empty if the name has none, or if it is 0, which asks for
// any.
func splitName(name string) (host, port string) {
	host, port, err := net.SplitHostPort(name)
	switch {
	case err != nil:
		return ports.Plain(name), ""
	case port == "0":
		return host, ""
	}
	return host, port
}

// ownName is the name of an engine whose name may say nothing about where peers reach it:
// it has no host, a wildcard, or port 0. Without a metadata service the name gets an address
// of this machine. In a metadata service the name is what peers look up, so it stays as it
// is, and ownName sets only the address that the name stands for.
func ownName(s *config.Store) string {
	host, port := splitName(s.LocalHostname)
	switch {
	case s.MetadataServer != open.P2PHandshake:
		if ports.IsWildcard(host) && s.AdvertiseHost == "" {
			s.AdvertiseHost = ports.Concrete(host)
		}
		return s.LocalHostname
	case port != "":
		return net.JoinHostPort(ports.Concrete(host), port)
	case host != ports.Plain(s.LocalHostname): // Port 0 asks for any port.
		s.HandshakePortFromName = false
	}
	return ports.Concrete(host)
}

// claimPort finds a port on which no process listens, on any address, and listens on it on loopback:
// the name is taken as long as its process lives, although nothing is served there.
func claimPort(ctx context.Context, low, high int) (int, io.Closer, bool) {
	span := high - low + 1
	start := int(model.NewUUID().Lo % uint64(span))
	var lc net.ListenConfig
	for i := range span {
		port := low + (start+i)%span
		ln, err := lc.Listen(ctx, "tcp", ":"+strconv.Itoa(port))
		if err == nil {
			_ = ln.Close() // No client has connected.
			if ln, err = lc.Listen(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
				return port, hold(ln), true
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	return 0, nil, false
}

// held is a listener that closes every connection at once.
type held struct {
	net.Listener
	done chan struct{}
}

func hold(ln net.Listener) io.Closer {
	h := held{ln, make(chan struct{})}
	go func() {
		defer close(h.done)
		for {
			conn, err := ln.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				time.Sleep(retryAfter) // Out of descriptors, most likely.
				continue
			}
			_ = conn.Close()
		}
	}()
	return h
}

// Close ends the listener and waits for its goroutine.
func (h held) Close() error {
	err := h.Listener.Close()
	<-h.done
	return err
}
