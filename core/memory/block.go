package memory

import (
	"math"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Block is one mapping of host memory, zeroed at first. Its methods are safe for
// concurrent use; who uses the bytes must be done before Close.
type Block struct {
	mem      []byte
	addr     uint64
	fd       int
	location string
	guard    bool

	mu     sync.Mutex
	closed bool
}

// Allocate maps size bytes, rounded up to whole pages. InvalidParams for size 0, for more
// than the machine or the control group has, and for huge pages that are not reserved;
// each error says what to change.
func Allocate(size uint64, o Options) (*Block, error) {
	return allocate(size, o, system{})
}

func allocate(size uint64, o Options, k kernel) (*Block, error) {
	page := uint64(os.Getpagesize())
	if o.HugePages != HugeNone {
		page = uint64(o.HugePages)
	}
	if size == 0 {
		return nil, errs.New(errs.InvalidParams, "memory: allocate", "the size is 0")
	}
	if size > math.MaxInt64-page {
		return nil, errs.New(errs.InvalidParams, "memory: allocate", "%d bytes do not fit an address space", size)
	}
	size = (size + page - 1) / page * page
	if err := ReadLimits(o.Root).Check(size); err != nil {
		return nil, err
	}
	if err := checkHuge(o.Root, o.HugePages, size); err != nil {
		return nil, err
	}
	b := &Block{fd: -1, location: o.Location, guard: o.Guard}
	if b.location == "" {
		b.location = "*"
	}
	var err error
	if b.mem, b.fd, err = mapMemory(size, o, k); err != nil {
		return nil, err
	}
	b.addr = AddrOf(b.mem)
	if o.Prefault {
		if err := k.populate(b.mem); err != nil {
			_ = b.Close() // The failure to populate is the news.
			return nil, errs.WithHint(errs.Wrap(errs.Internal, "memory: touch "+Human(size), err),
				"less memory is free than was asked for; ask for less or leave prefault off")
		}
	}
	return b, nil
}

// Bytes returns the memory, nil after Close.
func (b *Block) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	return b.mem
}

// Addr returns the address of the first byte. It stays what it was after Close.
func (b *Block) Addr() uint64 { return b.addr }

// Size returns the length in bytes, after rounding.
func (b *Block) Size() uint64 { return uint64(len(b.mem)) }

// FD returns the descriptor of the shared memory that the block maps from offset 0, or -1
// where the kernel did not allow one. It belongs to the block; Close closes it.
func (b *Block) FD() int { return b.fd }

// Location returns where the memory lives.
func (b *Block) Location() string { return b.location }

// Close gives the memory back. Repeatable. Slices of the block must not be used any more;
// with Options.Guard a use faults.
func (b *Block) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	err := b.unmap()
	if b.fd >= 0 {
		if e := unix.Close(b.fd); err == nil {
			err = e
		}
	}
	return errs.Wrap(errs.Internal, "memory: free "+Human(uint64(len(b.mem))), err)
}

func (b *Block) unmap() error {
	if !b.guard {
		return unix.Munmap(b.mem)
	}
	var err error
	if b.fd >= 0 {
		err = unix.Fallocate(b.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, int64(len(b.mem)))
	} else {
		err = unix.Madvise(b.mem, unix.MADV_DONTNEED)
	}
	if e := unix.Mprotect(b.mem, unix.PROT_NONE); err == nil {
		err = e
	}
	return err
}
