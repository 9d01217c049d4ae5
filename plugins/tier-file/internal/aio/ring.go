package aio

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What the kernel calls these numbers is in linux/io_uring.h.
const (
	ringEntries = 64

	offSQRing = 0
	offCQRing = 0x8000000
	offSQEs   = 0x10000000

	opNop    = 0
	opReadv  = 1
	opWritev = 2

	enterGetEvents = 1
)

type sqOffsets struct {
	head, tail, ringMask, ringEntries, flags, dropped, array, resv1 uint32
	userAddr                                                        uint64
}

type cqOffsets struct {
	head, tail, ringMask, ringEntries, overflow, cqes, flags, resv1 uint32
	userAddr                                                        uint64
}

type params struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFD uint32
	resv                                                                   [3]uint32
	sqOff                                                                  sqOffsets
	cqOff                                                                  cqOffsets
}

type sqe struct {
	opcode, flags uint8
	ioprio        uint16
	fd            int32
	off           uint64
	addr          uint64
	len           uint32
	rwFlags       uint32
	userData      uint64
	_             [3]uint64
}

type cqe struct {
	userData uint64
	res      int32
	flags    uint32
}

// wakeUp is the user data of the read of the event counter. Requests have their slots, from 1 on.
const wakeUp = 0

// ring is the engine with io_uring. One goroutine, on a thread of its own, enters the ring.
type ring struct {
	fd, event              int
	sq, cq, sqeMem         []byte
	sqTail, cqHead, cqTail *uint32
	sqMask, cqMask         uint32
	sqArray                []uint32
	sqes                   []sqe
	cqes                   []cqe
	ended                  chan struct{}
	slots                  [ringEntries]*Request // those at the kernel, from 1 on
	unused                 []uint64
	toSubmit               uint32
	counter                [8]byte
	counterVec             unix.Iovec
	armed, stop            bool // the event counter is being read; Close was called
	waiting                []*Request

	mu     sync.Mutex
	queue  []*Request
	closed bool
	// asleep says that the goroutine may be in the kernel, so that a Submit has to wake it.
	asleep atomic.Bool
}

// NewRing opens a ring. The error says why this process has none.
func NewRing() (Engine, error) {
	r := &ring{event: -1, ended: make(chan struct{})}
	if err := r.open(); err != nil {
		r.free()
		return nil, err
	}
	for i := range uint64(ringEntries - 1) {
		r.unused = append(r.unused, i+1)
	}
	r.counterVec.Base = &r.counter[0]
	r.counterVec.SetLen(len(r.counter))
	go r.run()
	return r, nil
}

func (r *ring) open() error {
	var p params
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, ringEntries, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		r.fd = -1
		return fmt.Errorf("io_uring_setup: %w%s", errno, why(errno))
	}
	r.fd = int(fd)
	unix.CloseOnExec(r.fd)
	var err error
	if r.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	for _, m := range []struct {
		to   *[]byte
		off  int64
		size uintptr
	}{
		{&r.sq, offSQRing, uintptr(p.sqOff.array) + uintptr(p.sqEntries)*4},
		{&r.cq, offCQRing, uintptr(p.cqOff.cqes) + uintptr(p.cqEntries)*unsafe.Sizeof(cqe{})},
		{&r.sqeMem, offSQEs, uintptr(p.sqEntries) * unsafe.Sizeof(sqe{})},
	} {
		*m.to, err = unix.Mmap(r.fd, m.off, int(m.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
		if err != nil {
			return fmt.Errorf("mmap of a ring: %w", err)
		}
	}
	word := func(mem []byte, off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&mem[off])) }
	r.sqTail, r.sqMask = word(r.sq, p.sqOff.tail), *word(r.sq, p.sqOff.ringMask)
	r.cqHead, r.cqTail, r.cqMask = word(r.cq, p.cqOff.head), word(r.cq, p.cqOff.tail), *word(r.cq, p.cqOff.ringMask)
	r.sqArray = unsafe.Slice(word(r.sq, p.sqOff.array), p.sqEntries)
	r.sqes = unsafe.Slice((*sqe)(unsafe.Pointer(&r.sqeMem[0])), p.sqEntries)
	r.cqes = unsafe.Slice((*cqe)(unsafe.Pointer(&r.cq[p.cqOff.cqes])), p.cqEntries)
	return r.try()
}

// try enters the ring once: a filter of system calls may forbid that alone.
func (r *ring) try() error {
	r.push(sqe{opcode: opNop, fd: -1})
	if errno := r.enter(1); errno != 0 {
		return fmt.Errorf("io_uring_enter: %w%s", errno, why(errno))
	}
	atomic.StoreUint32(r.cqHead, atomic.LoadUint32(r.cqTail))
	return nil
}

// why says what an operator can do about a ring that is refused.
func why(errno unix.Errno) string {
	b, _ := os.ReadFile("/proc/sys/kernel/io_uring_disabled")
	switch d := strings.TrimSpace(string(b)); {
	case d == "1" || d == "2":
		return ", kernel.io_uring_disabled is " + d
	case errno == unix.EPERM || errno == unix.ENOSYS:
		return ", as in a container whose seccomp profile forbids io_uring"
	}
	return ""
}

func (r *ring) free() {
	for _, m := range [][]byte{r.sq, r.cq, r.sqeMem} {
		if m != nil {
			_ = unix.Munmap(m)
		}
	}
	for _, fd := range []int{r.fd, r.event} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

func (r *ring) Depth() int { return ringEntries - 1 }

func (r *ring) Submit(rs ...*Request) {
	r.mu.Lock()
	refused := r.closed
	if !refused {
		r.queue = append(r.queue, rs...)
		r.wake()
	}
	r.mu.Unlock()
	if refused {
		for _, q := range rs {
			q.Done(ErrClosed)
		}
	}
}

// wake is called with the lock held: the goroutine closes the event counter under it.
func (r *ring) wake() {
	if r.asleep.Swap(false) {
		one := [8]byte{1}
		_, _ = unix.Write(r.event, one[:]) // A counter that is full wakes the ring as well.
	}
}

func (r *ring) Close(ctx context.Context) error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		r.asleep.Store(true)
		r.wake()
	}
	r.mu.Unlock()
	return closed(ctx, r.ended)
}

// push fills the next entry. There is always space: no more entries are in use than the ring has.
func (r *ring) push(e sqe) {
	tail := *r.sqTail // Only this goroutine writes it.
	i := tail & r.sqMask
	r.sqes[i] = e
	r.sqArray[i] = i
	atomic.StoreUint32(r.sqTail, tail+1)
	r.toSubmit++
}

func (r *ring) enter(wait uint32) unix.Errno {
	n, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(r.toSubmit), uintptr(wait), enterGetEvents, 0, 0)
	if errno == 0 {
		r.toSubmit -= uint32(n)
	}
	return errno
}

func (r *ring) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(r.ended)
	for {
		r.take()
		r.fill()
		if r.stop && len(r.unused) == len(r.slots)-1 && len(r.waiting) == 0 && !r.armed {
			break
		}
		wait := uint32(1)
		r.asleep.Store(true)
		if r.pending() {
			r.asleep.Store(false)
			wait = 0
		}
		errno := r.enter(wait)
		r.asleep.Store(false)
		r.reap()
		switch errno {
		case 0, unix.EINTR:
		case unix.EAGAIN, unix.EBUSY: // The kernel is short of memory.
			time.Sleep(time.Millisecond)
		default:
			// The kernel documents no other error for an open ring. The ring can no longer tell
			// when the memory of its requests is free.
			panic(fmt.Errorf("io_uring_enter: %w", errno))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asleep.Store(false)
	r.free()
}

// pending reports whether there are requests that take has not seen.
func (r *ring) pending() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue) > 0 || (r.closed && !r.stop)
}

// take fetches what was submitted.
func (r *ring) take() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, r.queue...)
	clear(r.queue)
	r.queue, r.stop = r.queue[:0], r.closed
}

// fill makes entries of what waits.
func (r *ring) fill() {
	if !r.armed && !r.stop {
		r.armed = true
		r.push(sqe{opcode: opReadv, fd: int32(r.event), addr: uint64(uintptr(unsafe.Pointer(&r.counterVec))), len: 1, userData: wakeUp})
	}
	n := min(len(r.waiting), len(r.unused))
	for _, q := range r.waiting[:n] {
		slot := r.unused[len(r.unused)-1]
		r.unused = r.unused[:len(r.unused)-1]
		r.slots[slot] = q
		r.push(q.entry(slot))
	}
	rest := copy(r.waiting, r.waiting[n:])
	clear(r.waiting[rest:])
	r.waiting = r.waiting[:rest]
}

// entry describes a request to the kernel. The slot keeps the memory and the vector alive.
func (q *Request) entry(slot uint64) sqe {
	q.vec = q.vec[:0]
	for _, b := range q.Bufs {
		v := unix.Iovec{Base: unsafe.SliceData(b)}
		v.SetLen(len(b))
		q.vec = append(q.vec, v)
	}
	op := uint8(opReadv)
	if q.Write {
		op = opWritev
	}
	return sqe{
		opcode: op, fd: int32(q.FD), off: uint64(q.Off), len: uint32(len(q.vec)), userData: slot,
		addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(q.vec)))),
	}
}

// reap ends the requests that the kernel completed.
func (r *ring) reap() {
	head := *r.cqHead // Only this goroutine writes it.
	for head != atomic.LoadUint32(r.cqTail) {
		c := r.cqes[head&r.cqMask]
		head++
		atomic.StoreUint32(r.cqHead, head)
		if c.userData == wakeUp {
			r.armed = false
			continue
		}
		q := r.slots[c.userData]
		r.slots[c.userData] = nil
		r.unused = append(r.unused, c.userData)
		var errno error
		if c.res < 0 {
			errno = unix.Errno(-c.res)
		}
		n := max(int(c.res), 0)
		again, err := q.moved(n, errno)
		if again {
			q.Off += int64(n)
			r.waiting = append(r.waiting, q)
			continue
		}
		q.Done(err)
	}
}
