package quic

import (
	"fmt"
	"net"
	"strconv"
)

// advertised returns the addresses for the endpoint: what the configuration says, else
// the host listened on, else the addresses of this machine, loopback only where there is
// no other.
func advertised(cfg *Config, at net.Addr) ([]string, error) {
	_, text, err := net.SplitHostPort(at.String())
	if err != nil {
		return nil, fmt.Errorf("transport/quic: start: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("transport/quic: start: %w", err)
	}
	hosts := cfg.Advertise
	if len(hosts) == 0 {
		if ip := net.ParseIP(cfg.Host); cfg.Host == "" || (ip != nil && ip.IsUnspecified()) {
			hosts = machineAddresses(ip != nil && ip.To4() != nil)
		} else {
			hosts = []string{cfg.Host}
		}
	}
	out := make([]string, 0, len(hosts))
	for _, h := range hosts {
		a, err := withPort(h, port)
		if err != nil {
			return nil, fmt.Errorf("transport/quic: start: address %q for peers: %w", h, err)
		}
		out = append(out, a)
	}
	return out, nil
}

// machineAddresses lists the global unicast addresses of this machine, IPv4 first, at
// most maxAddresses.
func machineAddresses(only4 bool) []string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		addrs = nil
	}
	var v4, v6 []string
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok || !n.IP.IsGlobalUnicast() {
			continue
		}
		if n.IP.To4() != nil {
			v4 = append(v4, n.IP.String())
		} else if !only4 {
			v6 = append(v6, n.IP.String())
		}
	}
	all := append(v4, v6...)
	if len(all) == 0 {
		return []string{"127.0.0.1"}
	}
	return all[:min(len(all), maxAddresses)]
}
