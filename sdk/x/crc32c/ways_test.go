package crc32c

import "testing"

// way is one way to copy and to compute the checksum. Tests use every way that this machine can
// run.
type way struct {
	name   string
	copy   func(crc uint32, dst, src []byte) uint32
	update func(crc uint32, src []byte) uint32
}

func ways(t testing.TB) []way {
	all := []way{{"chosen", CopyUpdate, Update}, {"portable", copyPortable, Update}}
	every := kernels()
	for _, k := range every {
		if k.steps > 0 { // A kernel of few steps, which short lengths reach.
			short := weaver(k.name+" of three steps", k.code, 3, k.block/k.steps-3*32)
			every = append(every, short)
		}
	}
	for _, k := range every {
		update := Update
		if k.alone {
			update = k.update
		}
		for name, stream := range map[string]bool{"": false, " past the caches": true} {
			all = append(all, way{k.name + name, func(crc uint32, dst, src []byte) uint32 { return k.copy(crc, dst[:len(src)], src, stream) }, update})
		}
	}
	if len(all) == 2 {
		t.Log("this processor lacks instructions that the kernels need: only the portable way is tested")
	}
	return all
}
