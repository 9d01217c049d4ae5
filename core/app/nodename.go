package app

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// nameSearch bounds the search for a free port, and retryAfter is the pause before the
// ports are gone through again.
const (
	nameSearch = 5 * time.Second
	retryAfter = 100 * time.Millisecond
)

// localName completes store.local_hostname to host:port with a port of the configured
// range that nobody listens on, so that nodes of one host get different names. The search
// begins at a random port.
func localName(ctx context.Context, s config.Store) (string, error) {
	host := s.LocalHostname
	if host == "" {
		return "", errs.New(errs.InvalidParams, "store.local_hostname", "it is empty; give this machine's name or address")
	}
	if h, port, err := net.SplitHostPort(host); err == nil {
		return net.JoinHostPort(notWildcard(h), port), nil
	}
	host = notWildcard(plainHost(host))
	ctx, cancel := context.WithTimeout(ctx, nameSearch)
	defer cancel()
	for try := range max(s.SetupRetries, 1) {
		if try > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(retryAfter):
			}
		}
		if port, ok := freePort(ctx, s.ClientMinPort, s.ClientMaxPort); ok {
			return net.JoinHostPort(host, strconv.Itoa(port)), nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return "", errs.New(errs.Internal, "store.local_hostname",
		"no port from %d to %d is free on this machine; give %q with a port, or another range with store.client_min_port and store.client_max_port", s.ClientMinPort, s.ClientMaxPort, host)
}

// notWildcard replaces a wildcard, which upstream's mooncake_client takes for its own address,
// by the first address of this machine that others can reach, or by loopback where there
// is none.
func notWildcard(host string) string {
	ip := net.ParseIP(host)
	if ip == nil || !ip.IsUnspecified() {
		return host
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		addrs = nil
	}
	return firstReachable(addrs, ip.To4() == nil)
}

func firstReachable(addrs []net.Addr, v6 bool) string {
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && (n.IP.To4() == nil) == v6 {
			return n.IP.String()
		}
	}
	if v6 {
		return "::1"
	}
	return "127.0.0.1"
}

// freePort returns a port that can be listened on.
func freePort(ctx context.Context, low, high int) (int, bool) {
	span := high - low + 1
	start := int(model.NewUUID().Lo % uint64(span))
	for i := range span {
		port := low + (start+i)%span
		var lc net.ListenConfig
		ln, err := lc.Listen(ctx, "tcp", ":"+strconv.Itoa(port))
		if err == nil {
			_ = ln.Close() // nobody has connected
			return port, true
		}
		if ctx.Err() != nil {
			break
		}
	}
	return 0, false
}
