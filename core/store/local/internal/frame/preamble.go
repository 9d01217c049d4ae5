package frame

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
)

// Kind says what a connection is for.
type Kind byte

// The kinds. A process opens one Lifeline, and one connection for Calls with the token that
// the lifeline brought.
const (
	Lifeline Kind = 1
	Calls    Kind = 2
)

// Token is what a connection for calls shows to be taken for its lifeline's.
type Token [16]byte

// NewToken returns one that cannot be guessed.
func NewToken() Token {
	var t Token
	rand.Read(t[:]) //nolint:errcheck // crypto/rand.Read never fails since Go 1.24.
	return t
}

var magic = []byte("mclocal1")

// preambleSize is magic, kind, seven zero bytes, token.
const preambleSize = 32

// WritePreamble opens a connection.
func WritePreamble(w io.Writer, k Kind, t Token) error {
	b := make([]byte, 0, preambleSize)
	b = append(append(append(b, magic...), byte(k), 0, 0, 0, 0, 0, 0, 0), t[:]...)
	_, err := w.Write(b)
	return err
}

// ReadPreamble reads what WritePreamble wrote and nothing beyond it.
func ReadPreamble(r io.Reader) (Kind, Token, error) {
	var b [preambleSize]byte
	var t Token
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, t, fmt.Errorf("the connection ended before it said what it is for: %w", err)
	}
	k := Kind(b[8])
	if !bytes.Equal(b[:8], magic) || !bytes.Equal(b[9:16], make([]byte, 7)) || k != Lifeline && k != Calls {
		return 0, t, fmt.Errorf("the connection begins with %q, which is not this protocol", b[:16])
	}
	copy(t[:], b[16:])
	return k, t, nil
}
