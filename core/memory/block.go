package memory

import (
	"math"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Block is host memory: a mapping of its own, zeroed at first, or a part of an arena, whose content
// is unspecified. Its methods are safe for concurrent use; the users of the bytes must be done
// before Close.
type Block struct {
	mem      []byte
	addr     uint64
	fd       int
	private  bool // fd is not for other processes
	offset   int64
	location string
	guard    bool
	piece    Piece // of an arena; its zero value for a mapping of its own
	pledge   *pledge

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
	root := rootOr(o.Root)
	fresh, machine := o.File == nil || isEmpty(o.File), o.File == nil || OfMachine(o.File)
	if fresh && machine { // Otherwise the pages are there already, or are none of this memory.
		if err := ReadLimits(root).Check(size); err != nil {
			return nil, err
		}
		if err := checkHuge(root, o.HugePages, size); err != nil {
			return nil, err
		}
	}
	if err := o.Placement.Check(root, o.HugePages, size); err != nil {
		return nil, err
	}
	if !o.Promise || o.HugePages != HugeNone || !machine {
		return mapped(size, o, k)
	}
	p, err := promise(root, size, !fresh)
	if err != nil {
		return nil, err
	}
	b, err := mapped(size, o, k)
	if err != nil {
		p.end()
		return nil, err
	}
	b.pledge = p
	p.at(b.fd)
	return b, nil
}

// mapped allocates what was checked.
func mapped(size uint64, o Options, k kernel) (*Block, error) {
	b := &Block{fd: -1, location: o.Location, guard: o.Guard, private: o.File != nil && InFile(o.File)}
	if b.location == "" {
		b.location = o.Placement.location()
	}
	var err error
	if b.mem, b.fd, err = mapMemory(size, o, k); err != nil {
		return nil, err
	}
	b.addr = AddrOf(b.mem)
	if err := b.settle(o, k); err != nil {
		_ = b.Close() // What failed is the news.
		return nil, err
	}
	return b, nil
}

// settle places the pages and, where asked for, makes the kernel provide them.
func (b *Block) settle(o Options, k kernel) error {
	placed, err := place(b.mem, o.Placement, k)
	if err != nil {
		return err
	}
	if !placed {
		if o.Location == "" {
			b.location = "*"
		}
		if o.Log != nil {
			o.Log.Warn("memory could not be placed on its NUMA node: the system does not permit mbind", "nodes", o.Placement.Nodes, "size", Human(b.Size()))
		}
	}
	if b.private && o.HugePages == HugeNone { // After the pages have been bound to their node.
		if err := Reserve(o.File, 0, int64(b.Size())); err != nil {
			return err
		}
	}
	if !o.touches() && (!b.private || o.HugePages == HugeNone) {
		return nil
	}
	err = populateAll(b.mem, max(populateStep, int(o.HugePages)), k.populate)
	if err != nil && b.private {
		return noRoom(o.File, b.Size(), err)
	}
	if err != nil {
		return errs.WithHint(errs.Wrap(errs.Internal, "memory: touch "+Human(b.Size()), err),
			"less memory is free than was asked for; ask for less or leave prefault off")
	}
	return nil
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

// FD returns the descriptor of the shared memory that the block maps from Offset on, for other processes to
// map, or -1 where the kernel did not allow one and where the memory is a file, which could shrink under them.
// It belongs to the block or its arena; it is valid until Close.
func (b *Block) FD() int {
	if b.private {
		return -1
	}
	return b.fd
}

// File returns a copy of the descriptor of the memory, also where FD does not. It is the caller's to close.
func (b *Block) File() (*os.File, error) {
	if b.fd < 0 {
		return nil, errs.New(errs.NotSupported, "memory: file of a block", "the system permits no memory files (memfd_create)")
	}
	fd, err := unix.FcntlInt(uintptr(b.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl(F_DUPFD_CLOEXEC)", err)
	}
	return os.NewFile(uintptr(fd), "mooncake-memory"), nil
}

// Offset returns where in FD the block begins, in bytes.
func (b *Block) Offset() int64 { return b.offset }

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
	if b.piece.arena != nil {
		b.piece.Release()
		return nil
	}
	b.pledge.end()
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
		return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b.mem)), uintptr(len(b.mem)))
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

// AddrOf returns the address of the first byte of b in this process, 0 for an empty
// slice. The address is meaningful as long as b is referenced: neither mappings nor heap
// objects move.
func AddrOf(b []byte) uint64 {
	if len(b) == 0 {
		return 0
	}
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}
