// Package transport is the contract of transports: what moves bytes between the registered memory
// of two processes.
//
// One-sided: the side that submits an operation names a range of its own memory and a range of the
// peer's; the peer's application is not involved. A transport serves its peers from Start to Stop
// without being asked.
//
// How the pieces meet. A node registers its memory and publishes, through a directory that the
// transport knows nothing of, its Endpoint and one Key for each region. A peer dials the endpoint,
// imports the keys, and submits operations on what it imported. Endpoints and keys are opaque blobs
// of the transport that made them. An endpoint carries an incarnation: a process that was restarted
// has a new one, and operations with keys of the old one fail with ClassTransientPeer, never touch
// other memory.
//
// Units: offsets, lengths are bytes. Concurrency: every method of Transport and of Path is safe for
// concurrent use. Submit never blocks; Reap waits.
//
// Memory: the transport may touch the memory of a region from Register until Deregister returned,
// and Op.Local from Submit until the operation's completion was reaped. A completion is terminal:
// the transport does not touch the buffer any more. Where that cannot be proven the status is
// Quarantined.
//
// The package imports the standard library only.
package transport

import (
	"context"
	"strconv"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// API lists the versions of this contract that this module supports.
func API() []uint { return []uint{1} }

// Capabilities of transports.
const (
	// CapLocalAny: Op.Local may be any memory of the process, registered or not.
	CapLocalAny plugin.Capability = "local-any"
	// CapRails: paths implement Railed.
	CapRails plugin.Capability = "rails"
	// CapNoForeign: in a process of its own the transport takes only memory that has a descriptor.
	// Without it the process is given other memory of the host as the local side of operations, by
	// copying.
	CapNoForeign plugin.Capability = "no-foreign"
	// CapUpstream: the transport implements Upstream.
	CapUpstream plugin.Capability = "upstream"
	// CapStall: the transport keeps Op.Stall. Operations of one that does not have to end by their
	// deadlines alone, so that its host has to guess how long moving them may take.
	CapStall plugin.Capability = "stall"
	// CapGuard: the transport asks Region.Guard before a peer writes.
	CapGuard plugin.Capability = "guard"
	// CapGrants: the transport asks Region.Grants before a peer reads or writes, and carries Op.Grant to the peer.
	CapGrants plugin.Capability = "grants"
	// CapSameUser: the transport serves processes of this machine that run as the same user or as root, and no others. They can
	// read and write the memory of this process anyway, so that a host does not ask it to check grants.
	CapSameUser plugin.Capability = "same-user"
	// CapSecure: where the host of the transport gives it a security mode (security.OfHost), the
	// transport moves bytes only between processes of the pool that proved who they are as the mode
	// says, and no other process can read or change them on the way. A host refuses a transport without it
	// in such a mode.
	CapSecure plugin.Capability = "secure"
)

// RegionID names a region within one process. The caller of Register picks it; 0 is no region.
type RegionID uint64

// Access says what peers may do with a region.
type Access uint8

// The rights, to be combined. AccessLocal alone keeps peers out: the memory is only used as the
// local side of operations.
const (
	AccessLocal       Access = 0
	AccessRemoteRead  Access = 1 << 0
	AccessRemoteWrite Access = 1 << 1
	AccessRemote             = AccessRemoteRead | AccessRemoteWrite
)

// Region is a range of this process's memory that takes part in transfers.
type Region struct {
	ID RegionID
	// Mem is the memory. It stays valid and in place until Deregister returned.
	Mem []byte
	// FD is a descriptor of the shared memory that Mem maps from FDOffset on, -1 where the memory
	// is not shareable. The transport must not close it.
	FD       int
	FDOffset int64
	// Location is where the memory lives: "cpu:0", "cuda:1", "*" for unknown.
	Location string
	Access   Access
	// Guard, where it is not nil, decides which writes of peers may begin. A host gives one only to a
	// transport with CapGuard that runs in the host's process. Register returns NotSupported where the
	// transport cannot ask it.
	Guard Guard
	// Grants, where it is not nil, decides what each peer may read and write. A host gives it only to a transport with
	// CapGrants. Register returns NotSupported where the transport cannot ask it. Peers that cannot prove who they are
	// have the zero Subject.
	Grants Grants
}

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

// Endpoint is where peers reach a transport: opaque but for the incarnation.
type Endpoint struct {
	// Blob is made and understood by transports of one name only, at most 4 KiB.
	Blob []byte
	// Incarnation differs for every start of a transport.
	Incarnation uint64
}

// Key is what a peer needs to address a region: opaque, at most 4 KiB.
type Key []byte

// Transport moves bytes between this process and others.
//
// Stop owes something to peers as well. From its begin on nothing new of theirs is carried out, and
// what had begun is finished and answered. What they had sent beyond that is answered, not dropped:
// with a refusal for each, or with one for the connection after which nothing of it is carried out.
// Such operations are Failed for them, with ClassTransientPeer, and may be tried again elsewhere; a
// connection that just ends leaves their Writes Quarantined. Stop then gives peers a moment to hear
// it. An upgrade of a plugin counts on this: its old process is stopped while peers may still be at
// it.
type Transport interface {
	plugin.Component
	// Endpoint returns the address for peers. Valid after Start.
	Endpoint() Endpoint
	// Register makes a region usable. InvalidParams for an ID in use, an empty region or one that
	// overlaps another.
	Register(ctx context.Context, r Region) (Key, error)
	// Deregister ends it. It returns once no operation of a peer touches the memory any more; when
	// the context ends first the region is closed to new operations all the same, and the error
	// says that the memory must not be reused yet.
	Deregister(ctx context.Context, id RegionID) error
	// Dial makes a path to a peer. It may return before a connection exists; operations then wait
	// for it or fail with a class.
	Dial(ctx context.Context, peer Endpoint) (Path, error)
}

// RemoteID names an imported key on one path.
type RemoteID uint64

// OpKind is the direction of an operation.
type OpKind uint8

// RailID names a rail of one path. 0 is none: the transport chooses.
type RailID uint16

// The directions.
const (
	// Read copies from the peer's memory into Local.
	Read OpKind = 1
	// Write copies Local into the peer's memory.
	Write OpKind = 2
)

// String returns the name of the direction.
func (k OpKind) String() string {
	switch k {
	case Read:
		return "Read"
	case Write:
		return "Write"
	}
	return "OpKind " + strconv.Itoa(int(k))
}

// Op is one operation: len(Local) bytes between Local and [Offset, Offset+len(Local)) of the remote
// region.
type Op struct {
	// ID comes back in the completion. The caller picks it; the transport does not interpret it.
	ID   uint64
	Kind OpKind
	// Local is this side's memory. It lies inside one registered region, unless the transport has
	// CapLocalAny. Zero length completes without a round trip.
	Local []byte
	// Remote and Offset name the peer's memory. Offset counts from the start of the region.
	Remote RemoteID
	Offset uint64
	// Rail is the way to take on a path that is Railed. An operation for a rail that is down fails
	// with class transient-path.
	Rail RailID
	// Deadline ends the operation with a failed completion, class transient-path; zero means the
	// transport's own limit, never no limit.
	Deadline time.Time
	// Stall ends the operation with a failed completion, class transient-path and code RPCTimeout,
	// when the path has moved nothing for so long, counted from Submit at the earliest; zero for no
	// such limit. What counts is progress of the path, not of this operation: one that waits behind
	// others on a slow link is not stalled while bytes move. A transport may take up to three times
	// as long for a peer with round trips of 50 ms or more, where what was lost is sent again only
	// after seconds. A transport without CapStall ignores it.
	Stall time.Duration
	// Hasty says that the caller has another place for the bytes of a Write, or another copy of those
	// of a Read. A transport may end a Write, class transient-peer, as soon as it can tell that the
	// peer's machine has all bytes of it, or takes no more, while the process there does not answer.
	// It may end a Read, class transient-peer and code RPCTimeout, once nothing has come from the peer
	// for some hundred milliseconds, or several round trips where these are longer.
	Hasty bool
	// Sum asks for the checksum of the bytes in the completion. A transport need not give one: see
	// Extras.Checksums.
	Sum bool
	// Grains asks for the checksum of each grain of the bytes. A transport need not give them: see
	// Extras.Checksums.
	Grains Grains
	// Grant is what the operation shows to a peer whose region has Grants; nil for nothing. A transport with CapGrants sends
	// the grant that it holds at that moment, with each part of an operation that it divides.
	Grant *Permit
}

// Status is how an operation ended.
type Status uint8

// The terminal states.
const (
	// OK: all bytes are in place. For a Write this means in the peer's memory.
	OK Status = 1
	// Failed: an unknown part of the bytes was moved; the buffer is free again.
	Failed Status = 2
	// Quarantined: failed, and the transport cannot prove that the local buffer (Read) or the
	// remote range (Write) will not be touched later.
	Quarantined Status = 3
)

// String returns the name of the status.
func (s Status) String() string {
	switch s {
	case OK:
		return "OK"
	case Failed:
		return "Failed"
	case Quarantined:
		return "Quarantined"
	}
	return "Status " + strconv.Itoa(int(s))
}

// Completion is the end of one accepted operation.
type Completion struct {
	ID     uint64
	Status Status
	// Err is nil for OK; else it carries an errs.Code and an errs.Class.
	Err error
	// Sum is the checksum (CRC-32C) of the bytes that were stored, where Summed says so, which it
	// does only for an operation with Op.Sum that is OK. It is that of what was stored even if the
	// source was changed meanwhile: the source is read once, or the sum is computed from the
	// destination.
	Sum    uint32
	Summed bool
	// Grained says the same of the checksums in Op.Grains.
	Grained bool
}

// Class is the class of the completion's error.
func (c Completion) Class() errs.Class { return errs.ClassOf(c.Err) }

// Path leads to one peer. It outlives lost connections; the transport connects again.
type Path interface {
	// Import makes a key of the peer usable on this path. A malformed key, or one of another
	// incarnation than the dialled endpoint's, is an error.
	Import(ctx context.Context, k Key) (RemoteID, error)
	// Submit takes operations and never blocks. It accepts the first `accepted` of them; a short
	// count with a nil error is back-pressure: reap, then submit the rest. An error concerns
	// ops[accepted], which was refused and gets no completion: a nil Local that is not empty, an
	// unknown RemoteID, a range past the end of the region (class permanent), or a closed path. A
	// transport in a process of its own, which alone knows how long a remote region is, accepts an
	// operation on a range past its end and fails it, class permanent.
	Submit(ops []Op) (accepted int, err error)
	// Reap waits until at least one completion is there or the context ends, and stores up to
	// len(dst). Every accepted operation completes exactly once. After Close, Reap gives out what
	// is left, then returns 0 and an error for which errors.Is(err, ErrPathClosed) holds; so it
	// does after the transport's Stop, whether or not the path was closed. It never returns 0 with
	// a nil error, unless dst is empty.
	Reap(ctx context.Context, dst []Completion) (int, error)
	// Close fails the operations in flight, class transient-path, and frees the path. Completions
	// can still be reaped. It may be called again.
	Close(ctx context.Context) error
}
