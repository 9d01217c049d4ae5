package crc32c

import "testing"

// way is one way to copy and to compute the checksum. Tests use every way that this machine can
// run.
type way struct {
	name string
	copy func(crc uint32, dst, src []byte) uint32
}

func ways(t testing.TB) []way {
	fold := func(past int) func(uint32, []byte, []byte) uint32 {
		return func(crc uint32, dst, src []byte) uint32 {
			if len(src) < least {
				return copyPortable(crc, dst, src)
			}
			return copyFold(crc, dst[:len(src)], src, past)
		}
	}
	all := []way{{"chosen", CopyUpdate}, {"portable", copyPortable}}
	if !useKernel {
		t.Log("this processor lacks instructions that the kernel needs: only the portable way is tested")
		return all
	}
	return append(all, way{"through the caches", fold(1 << 40)}, way{"past the caches", fold(0)})
}
