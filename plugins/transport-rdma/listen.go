package rdma

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// listen opens the bootstrap listener on the first free port of the configured range.
func listen(ctx context.Context, cfg *Config) (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive()}
	var err error
	for port := cfg.Port; port <= max(cfg.Port, cfg.PortMax); port++ {
		var ln net.Listener
		if ln, err = lc.Listen(ctx, "tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(port))); err == nil {
			return ln, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	err = &errs.Error{Code: errs.Internal, Class: errs.ClassLocalDevice, Op: "transport/rdma: start", Err: err}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, errs.WithHint(err, "pick another port, set port_max for a range, or port 0 for any free one")
	}
	return nil, err
}

// advertised returns the addresses for the endpoint: what the configuration says, else the
// host listened on, else those of this machine.
func advertised(cfg *Config, at net.Addr) ([]string, error) {
	tcp, ok := at.(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("transport/rdma: start: listening on %s, which is not TCP", at)
	}
	hosts := cfg.Advertise
	if len(hosts) == 0 {
		hosts = []string{cfg.Host}
		if ip := net.ParseIP(cfg.Host); cfg.Host == "" || (ip != nil && ip.IsUnspecified()) {
			hosts = machineAddresses(ip != nil && ip.To4() != nil)
		}
	}
	out := make([]string, 0, len(hosts))
	for _, h := range hosts {
		a, err := withPort(h, tcp.Port)
		if err != nil {
			return nil, fmt.Errorf("transport/rdma: start: address %q for peers: %w", h, err)
		}
		out = append(out, a)
	}
	return out, nil
}

// machineAddresses lists the addresses of this machine that others may reach, IPv4 first,
// and loopback only where there is no other.
func machineAddresses(only4 bool) []string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return []string{"127.0.0.1"}
	}
	var v4, v6 []string
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		switch {
		case !ok || !n.IP.IsGlobalUnicast():
		case n.IP.To4() != nil:
			v4 = append(v4, n.IP.String())
		case !only4:
			v6 = append(v6, n.IP.String())
		}
	}
	all := append(v4, v6...)
	if len(all) == 0 {
		return []string{"127.0.0.1"}
	}
	return all[:min(len(all), blob.MaxAddrs)]
}
