package verbs

import "testing"

func TestMTU(t *testing.T) {
	for e, bytes := range map[uint32]int{0: 0, 1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096, 6: 0} {
		if got := mtuBytes(e); got != bytes {
			t.Errorf("mtuBytes(%d) = %d", e, got)
		}
		if bytes > 0 && (mtuEnum(bytes) != e || mtuEnum(bytes+255) != e) {
			t.Errorf("mtuEnum(%d) = %d", bytes, mtuEnum(bytes))
		}
	}
	if mtuEnum(255) != 0 || mtuEnum(1<<20) != 5 {
		t.Error("the ends of the range")
	}
}

func TestPortSpeed(t *testing.T) {
	const giga = 1_000_000_000
	for _, c := range []struct {
		width, speed uint32
		want         uint64
	}{{1, 1, 25 * giga / 10}, {2, 32, 100 * giga}, {2, 64, 200 * giga}, {2, 128, 400 * giga}, {4, 128, 800 * giga}, {16, 64, 100 * giga}, {8, 4, 120 * giga}, {0, 32, 0}, {2, 0, 0}, {3, 3, 0}} {
		if got := portSpeed(c.width, c.speed); got != c.want {
			t.Errorf("portSpeed(%d, %d) = %d, want %d", c.width, c.speed, got, c.want)
		}
	}
}
