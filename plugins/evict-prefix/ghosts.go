package prefix

// ghosts remembers how often evicted objects were used, by the hash of their fingerprint. It holds
// four bytes a ghost in sets of sixteen, one cache line; a new ghost pushes the oldest of its set
// out. The top bits of a hash choose the set and the set implies the top four, so a slot needs 28
// bits of hash; the other four count the uses, and a slot without uses is free. Two keys of the
// same hash are taken for one, which costs one wrong guess.
type ghosts struct {
	sets [][ghostWays]uint32 // a power of two
	bits uint                // log2 of their number
}

const (
	ghostWays    = 16
	minGhostBits = 12 // 65536 ghosts, 256 KiB
	maxGhostBits = 24
	ghostsEach   = 4 // ghosts for one object, at least
)

func newGhosts() ghosts {
	return ghosts{sets: make([][ghostWays]uint32, 1<<minGhostBits), bits: minGhostBits}
}

// fit grows the sets for a number of objects.
func (g *ghosts) fit(objects uint64) {
	for uint64(len(g.sets))*ghostWays < objects*ghostsEach && g.bits < maxGhostBits {
		old := g.sets
		g.bits++
		g.sets = make([][ghostWays]uint32, 1<<g.bits)
		for s := range old {
			for way := ghostWays - 1; way >= 0; way-- {
				if slot := old[s][way]; slot != 0 {
					top := uint32(s) << (32 - g.bits + 1) >> 28
					g.add(top<<28|slot>>4, uint8(slot&maxUses))
				}
			}
		}
	}
}

// add remembers the uses of a key, 1 to maxUses.
func (g *ghosts) add(key uint32, uses uint8) {
	set := &g.sets[key>>(32-g.bits)]
	copy(set[1:], set[:ghostWays-1])
	set[0] = key<<4 | uint32(uses)
}

// take forgets a key and returns its uses, 0 for an unknown one.
func (g *ghosts) take(key uint32) uint8 {
	set := &g.sets[key>>(32-g.bits)]
	for way, slot := range set {
		if slot != 0 && slot>>4 == key<<4>>4 {
			copy(set[way:], set[way+1:])
			set[ghostWays-1] = 0
			return uint8(slot & maxUses)
		}
	}
	return 0
}
