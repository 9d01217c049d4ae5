// Package wire is how two processes talk over the socket of the shared-memory transport: endpoints,
// keys, messages with descriptors, and the reasons of refusals.
package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// Reason is why a peer refused a region or a connection.
type Reason uint8

// The reasons of a refusal. ReasonNone is no refusal.
const (
	ReasonNone Reason = iota
	ReasonVersion
	ReasonStale
	ReasonUser
	ReasonBusy
	ReasonUnknownRegion
	ReasonWrongToken
	ReasonNoAccess
	ReasonDraining
	ReasonStopping
	ReasonPart
	ReasonNoDescriptor
	ReasonProtocol
	NumReasons
)

// Refusals are what the reasons mean for callers.
var Refusals = []transportkit.Refusal{
	ReasonVersion:       transportkit.Refuse("version", "the peer speaks another version of the protocol", errs.NotSupported, errs.ClassTransientPath),
	ReasonStale:         transportkit.Refuse("stale", "another start of the transport answers there", errs.TransferFail, errs.ClassTransientPeer),
	ReasonUser:          transportkit.Refuse("user", "the peer admits its own user only (setting access)", errs.IllegalClient, errs.ClassTransientPath),
	ReasonBusy:          transportkit.Refuse("busy", "the peer has as many connections as it allows", errs.TransferFail, errs.ClassTransientPath),
	ReasonUnknownRegion: transportkit.UnknownRegion,
	ReasonWrongToken:    transportkit.WrongToken,
	ReasonNoAccess:      transportkit.Refuse("no-access", "the region is not open to peers", errs.InvalidKey, errs.ClassPermanent),
	ReasonDraining:      transportkit.Refuse("draining", "the peer has withdrawn the region", errs.InvalidKey, errs.ClassTransientPeer),
	ReasonStopping:      transportkit.Stopping,
	ReasonPart:          transportkit.Refuse("part", "the region shares its memory object with other memory, which a process of another user must not get", errs.NotSupported, errs.ClassTransientPath),
	ReasonNoDescriptor:  transportkit.Refuse("no-descriptor", "the peer could not make a descriptor of the region", errs.NotSupported, errs.ClassTransientPath),
	ReasonProtocol:      transportkit.Refuse("protocol", "the peer got a message that makes no sense", errs.TransferFail, errs.ClassTransientPath),
}

// Info returns how callers see the reason.
func (r Reason) Info() transportkit.Refusal {
	return transportkit.RefusalOf(Refusals, r, errs.ClassTransientPath)
}

// Error is what a caller gets.
func (r Reason) Error(op string) error {
	return r.Info().Error(op)
}

// MessageSize is the length of every message, in bytes. Little-endian; fields that a type does not
// use are zero:
//
//	 0  mark "MSHM", version, type, reason, access
//	 8  handle
//	16  number: incarnation (hello, welcome), region (attach), offset (attached)
//	24  length of the region
//	32  token: secret of the start (hello), token of the region (attach)
//	48  zeros
const MessageSize = 64

const (
	messageMark = "MSHM"
	wireVersion = 1
)

// MessageType says what a message means. Requests come from the side that dialled.
type MessageType uint8

const (
	// MsgHello is the first message, with the incarnation that is expected and its secret.
	MsgHello MessageType = iota + 1
	// MsgWelcome answers it, with the incarnation.
	MsgWelcome
	// MsgAttach asks for a region. The asker picks the handle; one handle for one region.
	MsgAttach
	// MsgAttached answers with where the region lies in the memory of the descriptor that comes
	// with it.
	MsgAttached
	// MsgDenied answers with a reason.
	MsgDenied
	// MsgRevoke takes a region back: unmap it, then send MsgDetached.
	MsgRevoke
	// MsgDetached says that a region is unmapped.
	MsgDetached
	// MsgGoAway ends the connection, with a reason: unmap everything, then close.
	MsgGoAway
	numMessages
)

// Message is one message, decoded.
type Message struct {
	Type   MessageType
	Reason Reason
	Access transport.Access
	Handle uint64
	Number uint64
	Length uint64
	Token  Token
}

// Put encodes the message.
func (m *Message) Put(b *[MessageSize]byte) {
	clear(b[:])
	copy(b[:], messageMark)
	b[4], b[5], b[6], b[7] = wireVersion, byte(m.Type), byte(m.Reason), byte(m.Access)
	binary.LittleEndian.PutUint64(b[8:], m.Handle)
	binary.LittleEndian.PutUint64(b[16:], m.Number)
	binary.LittleEndian.PutUint64(b[24:], m.Length)
	copy(b[32:], m.Token[:])
}

// ErrVersion says that a message is of another version of the protocol.
type ErrVersion byte

// Error implements error.
func (v ErrVersion) Error() string {
	return fmt.Sprintf("the peer speaks version %d of the protocol, this process %d", byte(v), wireVersion)
}

// DecodeMessage reads a message.
func DecodeMessage(b []byte) (Message, error) {
	var m Message
	if len(b) != MessageSize || string(b[:4]) != messageMark {
		return m, fmt.Errorf("%d bytes that are no message", len(b))
	}
	if b[4] != wireVersion {
		return m, ErrVersion(b[4])
	}
	m.Type, m.Reason, m.Access = MessageType(b[5]), Reason(b[6]), transport.Access(b[7])
	if m.Type == 0 || m.Type >= numMessages || m.Access&^transport.AccessRemote != 0 || [16]byte(b[48:]) != [16]byte{} {
		return Message{}, fmt.Errorf("a message of type %d that makes no sense", m.Type)
	}
	m.Handle = binary.LittleEndian.Uint64(b[8:])
	m.Number = binary.LittleEndian.Uint64(b[16:])
	m.Length = binary.LittleEndian.Uint64(b[24:])
	copy(m.Token[:], b[32:])
	return m, nil
}
