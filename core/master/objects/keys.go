package objects

import "encoding/binary"

// keys stores the keys of one shard without a pointer for each, so that the garbage collector has nothing to mark: one
// behind the other in blocks. A removed key leaves a hole. A block without keys is used again, and slots.tidy
// empties the blocks with most holes, so that no sequence of lengths wastes more than a share of the memory.
type keys struct {
	blocks []*[keyBlock]byte // nil where it was given back
	live   []uint16          // bytes in each that keys take
	unused []uint32          // blocks without keys
	head   uint32            // the block that is filled, plus one
	filled uint32            // bytes of it that were ever used
	total  int               // the sum of live
}

// slotBits is how many bits the number of a slot takes.
const slotBits = 22

const (
	// keyBlock is how many bytes are allocated at a time; see chunkSize.
	keyBlock  = 1 << blockBits
	blockBits = 12
	// keyHead is in front of each key: the slot whose key it is, and the length.
	keyHead = 4
	// longKey is the length from which on a key is not in a block, since it might leave too much of one empty: see extra.
	longKey = keyBlock / 8
	// besideName is the name of a key that is in extra.
	besideName = 1<<32 - 1
	// maxKeyBlocks is how many blocks a name can tell apart. Names are not 0: see keys.add.
	maxKeyBlocks = 1<<(32-blockBits) - 1
	// unusedBlocks is how many blocks without keys keep their memory.
	unusedBlocks = 4
	// keySlack bounds the holes: they take up to one byte for so many of keys, beside keptBlocks.
	keySlack, keptBlocks = 5, 2
)

// add makes space for the key of a slot and returns the key's name, which is not 0. It returns false if it takes no such key.
func (k *keys) add(length int, slot uint32) (space []byte, name uint32, ok bool) {
	n := uint32(length) + keyHead
	if length == 0 || length >= longKey || (k.head == 0 || k.filled+n > keyBlock) && !k.open() {
		return nil, 0, false
	}
	at := k.head - 1
	entry := k.blocks[at][k.filled : k.filled+n]
	binary.LittleEndian.PutUint32(entry, slot|uint32(length)<<slotBits)
	// The offset behind the head is above 0.
	name = at<<blockBits | (k.filled + keyHead)
	k.filled += n
	k.live[at] += uint16(n)
	k.total += int(n)
	return entry[keyHead:], name, true
}

// open begins a block.
func (k *keys) open() bool {
	last := k.head
	switch n := len(k.unused); {
	case n > 0:
		k.head, k.unused = k.unused[n-1]+1, k.unused[:n-1]
	case len(k.blocks) < maxKeyBlocks:
		k.blocks, k.live = append(k.blocks, nil), append(k.live, 0)
		k.head = uint32(len(k.blocks))
	default:
		return false
	}
	if k.blocks[k.head-1] == nil {
		k.blocks[k.head-1] = new([keyBlock]byte)
	}
	if last != 0 && k.live[last-1] == 0 {
		k.empty(last - 1)
	}
	k.filled = 0
	return true
}

// get returns the key of a name, where it is stored.
func (k *keys) get(name uint32) []byte {
	block, at := k.blocks[name>>blockBits], name&(keyBlock-1)
	n := binary.LittleEndian.Uint32(block[at-keyHead:]) >> slotBits
	return block[at : at+n]
}

// remove forgets a key.
func (k *keys) remove(name uint32) {
	n, at := len(k.get(name))+keyHead, name>>blockBits
	k.live[at] -= uint16(n)
	k.total -= n
	if k.live[at] == 0 && at != k.head-1 {
		k.empty(at)
	}
}

// empty notes that a block has no keys.
func (k *keys) empty(at uint32) {
	if len(k.unused) >= unusedBlocks {
		k.blocks[at] = nil
	}
	k.unused = append(k.unused, at)
}

// wasteful returns the block with most holes, if the holes take too much.
func (k *keys) wasteful() (at uint32, ok bool) {
	if used := len(k.blocks) - len(k.unused); used*keyBlock <= k.total+k.total/keySlack+keptBlocks*keyBlock {
		return 0, false
	}
	least := uint16(keyBlock)
	for i, n := range k.live {
		if n > 0 && n < least && uint32(i) != k.head-1 {
			at, least = uint32(i), n
		}
	}
	return at, least < keyBlock
}

// each calls do for the names in a block, with the slots that had them, until it returns false or has removed the last key.
// Removed keys are among them.
func (k *keys) each(at uint32, do func(name, slot uint32) bool) {
	for from := uint32(0); k.live[at] > 0; {
		head := binary.LittleEndian.Uint32(k.blocks[at][from:])
		if !do(at<<blockBits|(from+keyHead), head&(1<<slotBits-1)) {
			return
		}
		from += head>>slotBits + keyHead
	}
}
