package metadata

import (
	"net"
	"strconv"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// DefaultPort is the handshake port of a name that has none.
const DefaultPort = 12001

// MaxNameSize bounds the name of a node, in bytes.
const MaxNameSize = 1024

// ParseName splits the name of a node: "host:port", "host", "[v6]:port", "[v6]", a bare
// IPv6 address, or one with a zone and a port, "fe80::1%eth0:port". The port is
// DefaultPort where the name has none. InvalidParams for anything else.
func ParseName(name string) (host string, port int, err error) {
	return ParseNamePort(name, DefaultPort)
}

// ParseNamePort is ParseName with another port for names that have none; 0 tells them
// apart.
func ParseNamePort(name string, defaultPort int) (host string, port int, err error) {
	host, portText, hasPort := splitName(name)
	if err := checkHost(name, host); err != nil {
		return "", 0, err
	}
	if !hasPort {
		return host, defaultPort, nil
	}
	n, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || n == 0 || portText[0] == '0' {
		return "", 0, badName(name, "port %q is not a number from 1 to 65535", portText)
	}
	return host, int(n), nil
}

// JoinName is the inverse of ParseName: "host:port", an IPv6 address in brackets.
func JoinName(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

func splitName(name string) (host, port string, hasPort bool) {
	if rest, ok := strings.CutPrefix(name, "["); ok {
		host, after, _ := strings.Cut(rest, "]")
		if after == "" && strings.HasSuffix(name, "]") {
			return host, "", false
		}
		port, hasPort = strings.CutPrefix(after, ":")
		if !hasPort {
			return "", "", false
		}
		return host, port, true
	}
	if strings.Count(name, ":") <= 1 {
		return strings.Cut(name, ":")
	}
	// IPv6 without brackets: a colon after the zone starts the port, any other is part of
	// the address.
	if zone := strings.IndexByte(name, '%'); zone >= 0 {
		if colon := strings.IndexByte(name[zone:], ':'); colon >= 0 {
			return name[:zone+colon], name[zone+colon+1:], true
		}
	}
	return name, "", false
}

func checkHost(name, host string) error {
	switch {
	case len(name) > MaxNameSize:
		return badName(name[:64]+"...", "it has %d bytes, more than %d", len(name), MaxNameSize)
	case host == "":
		return badName(name, "it has no host")
	case strings.ContainsRune(host, ':'):
		address, zone, hasZone := strings.Cut(host, "%")
		if net.ParseIP(address) == nil || hasZone && zone == "" {
			return badName(name, "%q is not an IPv6 address", host)
		}
	}
	for _, r := range host {
		if r <= ' ' || r == 0x7f || r == 0xFFFD || strings.ContainsRune("/[]?#@\"\\", r) {
			return badName(name, "the host contains %q", r)
		}
	}
	return nil
}

func badName(name, format string, args ...any) error {
	return errs.WithHint(errs.New(errs.InvalidParams, "node name "+strconv.Quote(name), format, args...),
		"use host:port, or [address]:port for IPv6")
}

// CheckAdvertised reports a host that peers could not connect to: a wildcard address.
// InvalidParams.
func CheckAdvertised(host string) error {
	if err := checkHost(host, host); err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return errs.WithHint(errs.New(errs.InvalidParams, "node name "+strconv.Quote(host), "it is a wildcard, which peers cannot connect to"),
			"give the address or name of this machine")
	}
	return nil
}
