//go:build !amd64

package crc32c

const useKernel = false

func foldSum(uint32, *byte, int, *folds) uint32 { panic("crc32c: no kernel for this processor") }

func copyFold(crc uint32, dst, src []byte, _ int) uint32 { return copyPortable(crc, dst, src) }
