package foreign

import (
	"encoding/binary"
	"fmt"
)

// Refusal returns an error message in protocol p, given the first bytes that the client sent. It
// returns nil if the protocol has no such message and the connection can only be closed. text is
// one line of ASCII.
func Refusal(p Protocol, first []byte, text string) []byte {
	switch p {
	case CoroRPC:
		return coroError(first, text)
	case HTTP:
		body := text + "\n"
		return fmt.Appendf(nil, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
			len(body), body)
	case Redis:
		return []byte("-ERR " + text + "\r\n")
	default:
		return nil
	}
}

// The parts of an error of coro_rpc: the code of a protocol error, after which the client closes
// the connection, and the type code of a string.
const (
	coroProtocolError = 12
	coroString        = 0x9dcffa76
	maxCoroText       = 255
)

// coroError answers a request with an error: a head with the sequence number of the request, then
// a string with a one-byte length.
func coroError(first []byte, text string) []byte {
	seq, ok := sequence(first)
	if !ok {
		return nil
	}
	if len(text) > maxCoroText {
		text = text[:maxCoroText]
	}
	b := []byte{coroMagic, 0, coroProtocolError, 0}
	b = binary.LittleEndian.AppendUint32(b, seq)
	b = binary.LittleEndian.AppendUint32(b, uint32(4+1+len(text)))
	b = binary.LittleEndian.AppendUint32(b, 0) // No attachment.
	b = binary.LittleEndian.AppendUint32(b, coroString)
	b = append(b, byte(len(text)))
	return append(b, text...)
}
