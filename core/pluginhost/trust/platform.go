package trust

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
)

// HostPlatform returns the platform of this process, such as linux/amd64.
func HostPlatform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// machines are the 64-bit little-endian processors of ELF files, by number.
var machines = map[uint16]string{0x3e: "amd64", 0xb7: "arm64", 0xf3: "riscv64", 0x15: "ppc64le", 0x102: "loong64"}

// PlatformOf returns the platform of a program, which it reads from the first bytes. It is
// AnyPlatform for a script with an interpreter. PlatformOf fails for a program that this system can
// never run.
func PlatformOf(program io.ReaderAt) (string, error) {
	var head [20]byte
	n, err := program.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("cannot read it: %w", err)
	}
	switch {
	case n >= 3 && head[0] == '#' && head[1] == '!':
		return AnyPlatform, nil
	case n < len(head) || string(head[:4]) != "\x7fELF":
		return "", errors.New("it is neither an ELF program nor a script with #! and an interpreter")
	case head[7] != 0 && head[7] != 3: // System V or Linux
		return "", fmt.Errorf("it is an ELF program of another system (%d)", head[7])
	case head[4] == 2 && head[5] == 1 && machines[binary.LittleEndian.Uint16(head[18:])] != "":
		return "linux/" + machines[binary.LittleEndian.Uint16(head[18:])], nil
	case head[4] == 2 && head[5] == 2 && binary.BigEndian.Uint16(head[18:]) == 0x16:
		return "linux/s390x", nil
	}
	return "", fmt.Errorf("it is an ELF program for a processor that is not supported (%x)", head[18:20])
}
