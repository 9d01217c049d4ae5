package ports

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Plain removes the brackets of an IPv6 address: [::] and :: are the same.
func Plain(host string) string {
	inner, ok := strings.CutPrefix(host, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if ok && closed {
		if ip, err := netip.ParseAddr(inner); err == nil && ip.Is6() {
			return inner
		}
	}
	return host
}

// Host returns the host of host or host:port.
func Host(name string) string {
	if h, _, err := net.SplitHostPort(name); err == nil {
		return h
	}
	return Plain(name)
}

// BindFor returns the address on which a process listens for peers that reach it as host. For a
// loopback address it is that address, so that a pool on one machine is closed to other machines.
// Otherwise it is "", which means all addresses: the name that peers use may belong to another
// machine, such as a gateway.
func BindFor(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() {
		return host
	}
	return ""
}

// IsWildcard reports whether a host stands for all addresses of this machine.
func IsWildcard(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// Concrete replaces a wildcard, which upstream's mooncake_client and users of an engine give as
// their own address. It becomes the first address of this machine that other machines can reach, or
// loopback if the machine has none.
func Concrete(host string) string {
	if !IsWildcard(host) {
		return host
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		addrs = nil
	}
	return firstReachable(addrs, strings.Contains(host, ":"))
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

// OfInterface returns the address of a network interface: its first IPv4 address, else its first
// IPv6 address that other machines can use, else its link-local one with the zone.
func OfInterface(name string) (string, error) {
	ifc, err := net.InterfaceByName(name)
	if err != nil {
		return "", fmt.Errorf("interface %q: %w", name, err)
	}
	addrs, err := ifc.Addrs()
	if err != nil {
		return "", err
	}
	return pickAddress(name, addrs)
}

func pickAddress(name string, addrs []net.Addr) (string, error) {
	var global, local string
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		switch {
		case n.IP.To4() != nil:
			return n.IP.String(), nil
		case n.IP.IsLinkLocalUnicast() && local == "":
			local = n.IP.String() + "%" + name
		case !n.IP.IsLinkLocalUnicast() && global == "":
			global = n.IP.String()
		}
	}
	switch {
	case global != "":
		return global, nil
	case local != "":
		return local, nil
	default:
		return "", fmt.Errorf("interface %q has no address", name)
	}
}
