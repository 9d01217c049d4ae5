package zmtp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// A greeting is 64 bytes: signature, version, mechanism, whether this side is the server
// of the mechanism, filler.
const (
	greetingSize  = 64
	versionAt     = 10
	mechanismAt   = 12
	mechanismSize = 20
)

func greeting() []byte {
	g := make([]byte, greetingSize)
	g[0], g[9] = 0xff, 0x7f
	g[versionAt], g[versionAt+1] = 3, 1
	copy(g[mechanismAt:], "NULL")
	return g
}

// readGreeting refuses a peer that does not speak ZMTP 3 with mechanism NULL.
func readGreeting(r io.Reader) error {
	var g [greetingSize]byte
	// What is too old for version 3 sends less than a whole greeting.
	if _, err := io.ReadFull(r, g[:versionAt+1]); err != nil {
		return unexpected(err)
	}
	if g[0] != 0xff || g[9]&1 == 0 {
		return fmt.Errorf("it does not speak ZMTP 3")
	}
	if g[versionAt] < 3 {
		return fmt.Errorf("it speaks ZMTP %d; version 3 is needed, which libzmq has since 4.0", g[versionAt])
	}
	if _, err := io.ReadFull(r, g[versionAt+1:]); err != nil {
		return unexpected(err)
	}
	mechanism := g[mechanismAt : mechanismAt+mechanismSize]
	if name := string(bytes.TrimRight(mechanism, "\x00")); name != "NULL" {
		return fmt.Errorf("it wants mechanism %.20q; this side has NULL only", name)
	}
	return nil
}

// ready is the command that ends this side's handshake.
func ready() []byte {
	return appendCommand(nil, "READY", appendProperty(nil, "Socket-Type", "PUB"))
}

func appendProperty(dst []byte, name, value string) []byte {
	dst = append(dst, byte(len(name)))
	dst = append(dst, name...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(value))) //nolint:gosec // a constant of ours
	return append(dst, value...)
}

// readReady reads the peer's READY and refuses what does not subscribe.
func readReady(r io.Reader, buf *[]byte) error {
	f, err := readFrame(r, buf)
	if err != nil {
		return unexpected(err)
	}
	if !f.command {
		return fmt.Errorf("it sent a message before its READY")
	}
	name, data, err := split(f.body)
	if err != nil {
		return err
	}
	if name == "ERROR" {
		return fmt.Errorf("it refuses: %.200q", data)
	}
	if name != "READY" {
		return fmt.Errorf("it sent %.20q instead of READY", name)
	}
	kind, err := property(data, "Socket-Type")
	if err != nil {
		return err
	}
	if kind != "SUB" && kind != "XSUB" {
		return fmt.Errorf("its socket type is %.20q; only SUB and XSUB can subscribe", kind)
	}
	return nil
}

// property returns a property of a READY; names are the same in either case.
func property(data []byte, wanted string) (value string, err error) {
	for len(data) > 0 {
		n := int(data[0])
		if len(data) < 1+n+4 {
			return "", fmt.Errorf("its READY ends in the middle of a property")
		}
		name := string(data[1 : 1+n])
		size := uint64(binary.BigEndian.Uint32(data[1+n:]))
		data = data[1+n+4:]
		if size > uint64(len(data)) {
			return "", fmt.Errorf("its READY ends in the middle of a property")
		}
		if strings.EqualFold(name, wanted) {
			value = string(data[:size])
		}
		data = data[size:]
	}
	return value, nil
}
