package shm

import (
	"encoding/binary"
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// messageSize is the length of every message, in bytes. Little-endian; the place of what a
// type does not use is zero:
//
//	 0  mark "MSHM", version, type, reason, access
//	 8  handle
//	16  number: incarnation (hello, welcome), region (attach), offset (attached)
//	24  length of the region
//	32  token: secret of the start (hello), token of the region (attach)
//	48  zeros
const messageSize = 64

const (
	messageMark = "MSHM"
	wireVersion = 1
)

// messageType says what a message means. Requests come from the side that dialled.
type messageType uint8

const (
	// msgHello is the first message, with the incarnation that is expected and its secret.
	msgHello messageType = iota + 1
	// msgWelcome answers it, with the incarnation.
	msgWelcome
	// msgAttach asks for a region. The asker picks the handle; one handle for one region.
	msgAttach
	// msgAttached answers with where the region lies in the memory of the descriptor that
	// comes with it.
	msgAttached
	// msgDenied answers with a reason.
	msgDenied
	// msgRevoke takes a region back: unmap it, then send msgDetached.
	msgRevoke
	// msgDetached says that a region is unmapped.
	msgDetached
	// msgGoAway ends the connection, with a reason: unmap everything, then close.
	msgGoAway
	numMessages
)

// message is one message, decoded.
type message struct {
	Type   messageType
	Reason reason
	Access transport.Access
	Handle uint64
	Number uint64
	Length uint64
	Token  token
}

func (m *message) put(b *[messageSize]byte) {
	clear(b[:])
	copy(b[:], messageMark)
	b[4], b[5], b[6], b[7] = wireVersion, byte(m.Type), byte(m.Reason), byte(m.Access)
	binary.LittleEndian.PutUint64(b[8:], m.Handle)
	binary.LittleEndian.PutUint64(b[16:], m.Number)
	binary.LittleEndian.PutUint64(b[24:], m.Length)
	copy(b[32:], m.Token[:])
}

// errVersion says that a message is of another version of the protocol.
type errVersion byte

func (v errVersion) Error() string {
	return fmt.Sprintf("the peer speaks version %d of the protocol, this process %d", byte(v), wireVersion)
}

func decodeMessage(b []byte) (message, error) {
	var m message
	if len(b) != messageSize || string(b[:4]) != messageMark {
		return m, fmt.Errorf("%d bytes that are no message", len(b))
	}
	if b[4] != wireVersion {
		return m, errVersion(b[4])
	}
	m.Type, m.Reason, m.Access = messageType(b[5]), reason(b[6]), transport.Access(b[7])
	if m.Type == 0 || m.Type >= numMessages || m.Access&^transport.AccessRemote != 0 || [16]byte(b[48:]) != [16]byte{} {
		return message{}, fmt.Errorf("a message of type %d that makes no sense", m.Type)
	}
	m.Handle = binary.LittleEndian.Uint64(b[8:])
	m.Number = binary.LittleEndian.Uint64(b[16:])
	m.Length = binary.LittleEndian.Uint64(b[24:])
	copy(m.Token[:], b[32:])
	return m, nil
}
