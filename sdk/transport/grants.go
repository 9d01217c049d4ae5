package transport

import "sync/atomic"

// GrantSize is the size of a Grant, in bytes.
const GrantSize = 48

// Grant is what a peer shows to read or write a range of a region that has Grants. It is opaque to transports, which
// carry it from Op.Grant to Grants.Check of the peer.
type Grant [GrantSize]byte

// Subject stands for the identity of a process: a hash of it. The zero value is that of a peer without an identity.
type Subject [16]byte

// Permit holds the grant of operations that may take longer than the grant lasts: its owner renews it meanwhile. A nil
// Permit holds none. Safe for concurrent use.
type Permit struct{ g atomic.Pointer[Grant] }

// Grant returns the present grant, nil for none. It does not change.
func (p *Permit) Grant() *Grant {
	if p == nil {
		return nil
	}
	return p.g.Load()
}

// Renew replaces the grant. The caller does not change g any more.
func (p *Permit) Renew(g *Grant) { p.g.Store(g) }

// PermitOf returns a permit for one grant.
func PermitOf(g *Grant) *Permit {
	p := new(Permit)
	p.Renew(g)
	return p
}
