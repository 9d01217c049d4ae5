package trust

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// elf is the beginning of a program for a machine.
func elf(class, data, abi byte, machine ...byte) []byte {
	head := append([]byte("\x7fELF"), class, data, 1, abi)
	return append(append(head, make([]byte, 10)...), machine...)
}

func TestPlatformOf(t *testing.T) {
	for want, head := range map[string][]byte{
		"linux/amd64":   elf(2, 1, 0, 0x3e, 0),
		"linux/arm64":   elf(2, 1, 3, 0xb7, 0),
		"linux/riscv64": elf(2, 1, 0, 0xf3, 0),
		"linux/loong64": elf(2, 1, 0, 0x02, 0x01),
		"linux/s390x":   elf(2, 2, 0, 0, 0x16),
		AnyPlatform:     []byte("#!/bin/sh\n"),
	} {
		got, err := PlatformOf(bytes.NewReader(head))
		require.NoError(t, err, want)
		assert.Equal(t, want, got)
	}
	for want, head := range map[string][]byte{
		"neither an ELF program nor a script": {},
		"neither an ELF":                      []byte("MZ..................................."),
		"another system":                      elf(2, 1, 9, 0x3e, 0),
		"not supported (0300)":                elf(1, 1, 0, 3, 0),
		"not supported (3e00)":                elf(1, 1, 0, 0x3e, 0),
	} {
		_, err := PlatformOf(bytes.NewReader(head))
		assert.ErrorContains(t, err, want)
	}
	exe, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer exe.Close()
	got, err := PlatformOf(exe)
	require.NoError(t, err)
	assert.Equal(t, HostPlatform(), got)
}
