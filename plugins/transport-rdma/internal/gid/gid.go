// Package gid chooses the address (GID) of a port that peers should use.
package gid

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// GID is an address of a port, in network byte order.
type GID [16]byte

// Zero reports whether the entry of the table is empty: no address, or the link-local prefix alone.
func (g GID) Zero() bool { return g == GID{} || g == GID{0: 0xfe, 1: 0x80} }

// String returns 16 bytes in lower-case hexadecimal, separated by colons, as segment
// descriptors have it.
func (g GID) String() string { return strings.ReplaceAll(fmt.Sprintf("% x", g[:]), " ", ":") }

// Parse reads the form that String writes; upper case is accepted.
func Parse(s string) (g GID, err error) {
	raw, err := hex.DecodeString(strings.ReplaceAll(s, ":", ""))
	if err == nil && len(raw) == len(g) && strings.EqualFold(GID(raw).String(), s) {
		return GID(raw), nil
	}
	return g, fmt.Errorf("%q is no GID: 16 bytes in hexadecimal, separated by colons", s)
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
	rank, bare := Routable, RoutableBare
	switch {
	case overlay(e.Netdev) || local(e.GID):
		rank, bare = Degraded, DegradedBare
	case private(e.GID):
		rank, bare = Private, PrivateBare
	}
	if e.Netdev == "" {
		return bare
	}
	return rank
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
var sites = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("100.64.0.0/10"),
}

// private reports whether the address is of one of the sites.
func private(g GID) bool {
	a := netip.AddrFrom16(g)
	return a.Is4In6() && slices.ContainsFunc(sites, func(p netip.Prefix) bool { return p.Contains(a.Unmap()) })
}
