package transport

import "sync/atomic"

// GrantSize is the size of a Grant, in bytes.
const GrantSize = 48

// Grant is what a peer shows to read or write a range of a region that has Grants. It is opaque to transports, which
// carry it from Op.Grant to Grants.Check of the peer.
type Grant [GrantSize]byte

// Subject stands for the identity of a process: a hash of it. The zero value is that of a peer without an identity.
type Subject [16]byte

// Grants decides what a peer may do with a region. The owner of the memory makes it, and gives it with Region.Grants.
// Check is called by any goroutine; it neither blocks nor calls the transport back.
type Grants interface {
	// Check reports whether a peer may read or write all of [offset, offset+size) of the region, which is within the region.
	// g is the grant that came with the operation, nil for none, and by is who the peer proved to be.
	Check(g *Grant, by Subject, kind OpKind, offset, size uint64) Verdict
}

// Verdict is what Grants says of an operation.
type Verdict uint8

// The verdicts. With any but GrantGood the operation is Failed for the peer and changes no byte.
const (
	GrantGood Verdict = iota
	// GrantMissing: the operation has none. Failed with code IllegalClient, ClassPermanent.
	GrantMissing
	// GrantWrong: it is not a grant of the region's master for this peer, direction and range. Failed with code IllegalClient,
	// ClassPermanent.
	GrantWrong
	// GrantOver: its time is over, or that of the master that made it; the caller asks the master again. Failed with code
	// LeaseExpired, ClassPermanent.
	GrantOver
)

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
