// Package gid chooses the address (GID) of a port that peers should use.
package gid

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
)

// GID is an address of a port, in network byte order.
type GID [16]byte

// Zero reports whether the entry of the table is empty.
func (g GID) Zero() bool { return g == GID{} }

// String returns 16 bytes in lower-case hexadecimal, separated by colons, as segment
// descriptors have it.
func (g GID) String() string {
	var b strings.Builder
	for i, x := range g {
		if i > 0 {
			b.WriteByte(':')
		}
		b.WriteString(hex.EncodeToString([]byte{x}))
	}
	return b.String()
}

// Parse reads the form that String writes; upper case is accepted.
func Parse(s string) (GID, error) {
	var g GID
	if len(s) != 47 {
		return g, fmt.Errorf("a GID is 16 bytes in hexadecimal, separated by colons; this has %d characters", len(s))
	}
	for i := range g {
		if i > 0 && s[3*i-1] != ':' {
			return GID{}, fmt.Errorf("a GID is 16 bytes in hexadecimal, separated by colons; byte %d is not", i)
		}
		if _, err := hex.Decode(g[i:i+1], []byte(s[3*i:3*i+2])); err != nil {
			return GID{}, fmt.Errorf("byte %d of the GID: %w", i, err)
		}
	}
	return g, nil
}

// Type is how packets with a GID are carried.
type Type uint8

// The types.
const (
	InfiniBand Type = iota
	RoCEv1
	RoCEv2
)

// Entry is one line of the GID table of a port.
type Entry struct {
	Index int
	GID   GID
	Type  Type
	// Netdev is the name of the network interface, empty for none.
	Netdev string
}

// The ranks, best first. The last one is for entries that are only better than nothing.
const (
	Routable = iota
	RoutableBare
	Private
	Degraded
	PrivateBare
	DegradedBare
	LastResort
	Unusable
)

// Rank says how good an entry is for peers on other machines: lower is better. Bare
// ranks are those without a network interface.
func Rank(e Entry) int {
	if e.GID.Zero() {
		return Unusable
	}
	if e.Type == RoCEv1 {
		return LastResort
	}
	bare := e.Netdev == ""
	switch pick := func(with, without int) int {
		if bare {
			return without
		}
		return with
	}; {
	case overlay(e.Netdev) || local(e.GID):
		return pick(Degraded, DegradedBare)
	case private(e.GID):
		return pick(Private, PrivateBare)
	default:
		return pick(Routable, RoutableBare)
	}
}

// Best returns the entry to use, the lowest index among equals. ok is false where every
// entry is empty.
func Best(entries []Entry) (best Entry, ok bool) {
	rank := Unusable
	for _, e := range entries {
		r := Rank(e)
		if r < rank || (ok && r == rank && e.Index < best.Index) {
			best, rank, ok = e, r, true
		}
	}
	return best, ok
}

// overlay reports whether the interface belongs to a container network, whose addresses
// other machines cannot reach with RDMA.
func overlay(netdev string) bool {
	for _, p := range []string{"flannel", "cni", "calico", "vxlan", "docker"} {
		if strings.HasPrefix(netdev, p) {
			return true
		}
	}
	return netdev == "tunl0"
}

// local reports whether the address is valid on its link or machine only.
func local(g GID) bool {
	a := netip.AddrFrom16(g).Unmap()
	return a.IsLinkLocalUnicast() && a.Is6() || a.IsLoopback()
}

// sites are the IPv4 ranges that are taken to be routed inside a site only.
// 192.168.0.0/16 is not among them: the reference implementation ranks it as routable,
// and both must choose the same address of a machine.
func sites() [3]netip.Prefix {
	return [3]netip.Prefix{
		netip.PrefixFrom(netip.AddrFrom4([4]byte{10}), 8),
		netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16}), 12),
		netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10),
	}
}

// private reports whether the address is of one of the sites.
func private(g GID) bool {
	a := netip.AddrFrom16(g)
	if !a.Is4In6() {
		return false
	}
	for _, p := range sites() {
		if p.Contains(a.Unmap()) {
			return true
		}
	}
	return false
}
