package app

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// ResolveInterface replaces master.rpc_address by the address of master.rpc_interface,
// where one is named. The answer of an interface that keeps its addresses stays the same,
// so that it may be asked again.
func ResolveInterface(cfg config.Config) (config.Config, error) {
	name := cfg.Master.RPCInterface
	if name == "" {
		return cfg, nil
	}
	addrs, err := interfaceAddrs(name)
	if err == nil {
		cfg.Master.RPCAddress, err = pickAddress(name, addrs)
	}
	if err != nil {
		return cfg, errs.WithHint(fmt.Errorf("master.rpc_interface: %w", err), "'ip -brief addr' lists the interfaces and their addresses; --rpc_address takes an address")
	}
	return cfg, nil
}

func interfaceAddrs(name string) ([]net.Addr, error) {
	ifc, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %q: %w", name, err)
	}
	return ifc.Addrs()
}

// pickAddress returns the first IPv4 address, else the first IPv6 address that means
// something to other machines, else the link-local one with its zone.
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

// plainHost takes the brackets off an IPv6 address: [::] and :: are the same.
func plainHost(host string) string {
	inner, ok := strings.CutPrefix(host, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if ok && closed {
		if ip, err := netip.ParseAddr(inner); err == nil && ip.Is6() {
			return inner
		}
	}
	return host
}
