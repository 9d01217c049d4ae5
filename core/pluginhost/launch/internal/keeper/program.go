//go:build amd64 || arm64

package keeper

import "unsafe"

// mark follows the last instruction, aligned to 4 bytes.
const mark = 0x646e652e7065656b

// program returns the address of the instructions, see program_*.s.
func program() unsafe.Pointer

func instructions() []byte { return clip(program()) }
