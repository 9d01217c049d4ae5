package model

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// UUID is a 128-bit identifier. Its text form, here and upstream, is the two halves in
// decimal with a dash between them.
type UUID struct{ Hi, Lo uint64 }

// ClientID names one running client or store node; a restarted process has a new one.
type ClientID = UUID

// SegmentID names one mounted piece of memory.
type SegmentID = UUID

// NewUUID returns a random identifier.
func NewUUID() UUID {
	var b [16]byte
	rand.Read(b[:]) //nolint:errcheck // crypto/rand.Read never fails since Go 1.24.
	return UUID{Hi: binary.LittleEndian.Uint64(b[:8]), Lo: binary.LittleEndian.Uint64(b[8:])}
}

// IsZero reports whether the identifier is unset.
func (u UUID) IsZero() bool { return u == UUID{} }

// String returns "<hi>-<lo>" in decimal.
func (u UUID) String() string { return fmt.Sprintf("%d-%d", u.Hi, u.Lo) }

// ParseUUID parses the text form.
func ParseUUID(s string) (UUID, error) {
	hi, lo, ok := strings.Cut(s, "-")
	if !ok {
		return UUID{}, fmt.Errorf("identifier %q must be two decimal numbers with a dash between them", s)
	}
	h, err := strconv.ParseUint(hi, 10, 64)
	if err != nil {
		return UUID{}, fmt.Errorf("identifier %q: %w", s, err)
	}
	l, err := strconv.ParseUint(lo, 10, 64)
	if err != nil {
		return UUID{}, fmt.Errorf("identifier %q: %w", s, err)
	}
	return UUID{Hi: h, Lo: l}, nil
}
