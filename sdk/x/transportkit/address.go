package transportkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// MaxAddresses bounds the addresses of one endpoint.
const MaxAddresses = 8

// Addresses are the settings of a listener, to be embedded in the configuration of a transport.
type Addresses struct {
	Host      string   `json:"host" doc:"address to listen on; empty for all, IPv4 and IPv6"`
	Port      int      `json:"port" range:"0..65535" doc:"first port to try; 0 for any free one"`
	PortMax   int      `json:"port_max" range:"0..65535" doc:"last port to try after port; 0 for port alone"`
	Advertise []string `json:"advertise" length:"..8" doc:"hosts or host:port pairs that peers dial; empty for the addresses of this machine"`
}

// Validate checks what the tags do not.
func (a Addresses) Validate() error {
	if a.PortMax != 0 && (a.Port == 0 || a.PortMax < a.Port) {
		return fmt.Errorf("port_max is %d, must be 0 or at least port (%d), and port must be set", a.PortMax, a.Port)
	}
	for _, h := range a.Advertise {
		if _, err := withPort(h, 1); err != nil {
			return fmt.Errorf("advertise %q: %w", h, err)
		}
	}
	return nil
}

// Listen opens a TCP listener on the first free port. Errors begin with op.
func (a Addresses) Listen(ctx context.Context, op string, lc net.ListenConfig) (net.Listener, error) {
	return firstFree(a, op, func(addr string) (net.Listener, error) { return lc.Listen(ctx, "tcp", addr) })
}

// ListenUDP opens a UDP socket on the first free port. Errors begin with op.
func (a Addresses) ListenUDP(ctx context.Context, op string) (*net.UDPConn, error) {
	var lc net.ListenConfig
	c, err := firstFree(a, op, func(addr string) (net.PacketConn, error) { return lc.ListenPacket(ctx, "udp", addr) })
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

// firstFree tries the ports in turn until one is not in use.
func firstFree[L any](a Addresses, op string, listen func(addr string) (L, error)) (L, error) {
	var err error
	for port := a.Port; port <= max(a.Port, a.PortMax); port++ {
		var l L
		if l, err = listen(net.JoinHostPort(a.Host, strconv.Itoa(port))); err == nil {
			return l, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	var none L
	err = &errs.Error{Code: errs.Internal, Class: errs.ClassLocalDevice, Op: op, Err: err}
	if errors.Is(err, syscall.EADDRINUSE) {
		return none, errs.WithHint(err, "pick another port, set port_max for a range, or port 0 for any free one")
	}
	return none, err
}

// Advertised returns the addresses for the endpoint of a listener at the given address: the
// configured ones, else the host listened on, else the addresses of this machine, with loopback
// only where there is no other. Errors begin with op.
func (a Addresses) Advertised(op string, at net.Addr) ([]string, error) {
	_, text, err := net.SplitHostPort(at.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	hosts := a.Advertise
	if len(hosts) == 0 {
		hosts = []string{a.Host}
		if ip := net.ParseIP(a.Host); a.Host == "" || (ip != nil && ip.IsUnspecified()) {
			hosts = machineAddresses(ip != nil && ip.To4() != nil)
		}
	}
	out := make([]string, 0, len(hosts))
	for _, h := range hosts {
		addr, err := withPort(h, port)
		if err != nil {
			return nil, fmt.Errorf("%s: address %q for peers: %w", op, h, err)
		}
		out = append(out, addr)
	}
	return out, nil
}

// machineAddresses lists the global unicast addresses of this machine, IPv4 first, at most
// MaxAddresses.
func machineAddresses(only4 bool) []string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		addrs = nil
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
	return all[:min(len(all), MaxAddresses)]
}

// withPort returns addr as host:port. It adds port where addr is a host alone. A bare IPv6 address
// needs no brackets.
func withPort(addr string, port int) (string, error) {
	bare := !strings.Contains(addr, ":") || net.ParseIP(strings.Trim(addr, "[]")) != nil
	if bare {
		addr = net.JoinHostPort(strings.Trim(addr, "[]"), strconv.Itoa(port))
	}
	return addr, CheckAddress(addr)
}

// CheckAddress accepts host:port with a host of 1 to 255 bytes and a port of 1 to 65535.
func CheckAddress(addr string) error {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if host == "" || len(host) > 255 || strings.ContainsAny(host, " \t\r\n\x00/") {
		return fmt.Errorf("%q is not a host name or an IP address", host)
	}
	if port, err := strconv.ParseUint(text, 10, 16); err != nil || port == 0 {
		return fmt.Errorf("port %q is not a number from 1 to 65535", text)
	}
	return nil
}
