package memwire

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// Area is memory of the host that the plugin has mapped.
type Area struct {
	mem   *shm.Memory
	bytes []byte
	// users counts the registration and the operations in flight.
	users int
	gone  bool // no new operations
	kept  bool // the plugin may still use it: it stays mapped
}

// Areas are the regions of the host that the plugin has mapped, by handle. Safe for concurrent use.
type Areas struct {
	mu    sync.Mutex
	areas map[uint64]*Area
	last  *void // the area that was unmapped last, kept until another one is mapped or unmapped
	used  error // the first use of an area after it was unmapped
}

// Map maps size bytes at offset of a memory file, at addr if that is free. elsewhere reports that
// it was not. The caller still owns the descriptor.
func (t *Areas) Map(handle uint64, fd int, offset int64, size uint64, addr uint64) (b []byte, elsewhere bool, err error) {
	page, end, err := pageOf(fd)
	if err != nil {
		return nil, false, err
	}
	if offset < 0 || size == 0 || uint64(offset) > uint64(end) || size > uint64(end)-uint64(offset) {
		return nil, false, fmt.Errorf("%d bytes at offset %d reach past the end of the memory file (%d bytes)", size, offset, end)
	}
	skip := offset % page
	length := (skip + int64(size) + page - 1) / page * page
	length = min(length, end-(offset-skip))
	var near uintptr
	if addr%uint64(page) == uint64(skip) {
		near = uintptr(addr - uint64(skip))
	}
	t.settle() // The same address may be asked for.
	mem, err := shm.Map(fd, shm.MapOptions{Offset: offset - skip, Size: int(length), Near: near})
	if err != nil {
		return nil, false, err
	}
	b = mem.Bytes()[skip : skip+int64(size) : skip+int64(size)]
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.areas == nil {
		t.areas = map[uint64]*Area{}
	}
	if t.areas[handle] != nil {
		_ = mem.Close()
		return nil, false, fmt.Errorf("the handle %d is in use", handle)
	}
	t.areas[handle] = &Area{mem: mem, bytes: b, users: 1}
	return b, uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) != addr, nil
}

// pageOf returns the page size of a memory file, and the size of the file.
func pageOf(fd int) (page, size int64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, 0, os.NewSyscallError("fstat", err)
	}
	page = int64(os.Getpagesize())
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) == nil && fs.Type == unix.HUGETLBFS_MAGIC {
		page = max(page, fs.Bsize)
	}
	return page, st.Size, nil
}

// Unmap removes an area and unmaps it once no operation uses it any more.
func (t *Areas) Unmap(handle uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.areas[handle]; a != nil {
		delete(t.areas, handle)
		a.gone = true
		t.leave(a)
	}
}

// Count returns the number of areas.
func (t *Areas) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.areas)
}

// UnmapAll removes all areas as Unmap does, once the plugin has stopped. It returns an error if the plugin has used an area after
// Unmap.
func (t *Areas) UnmapAll() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for handle, a := range t.areas {
		delete(t.areas, handle)
		a.gone = true
		t.leave(a)
	}
	t.judge(nil)
	return t.used
}

// leave ends a use of an area. mu is held.
func (t *Areas) leave(a *Area) {
	if a.users--; a.users == 0 && a.gone && !a.kept {
		t.judge(newVoid(a.mem))
	}
}

// settle judges the last area, and frees its address.
func (t *Areas) settle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.judge(nil)
}

// judge finds out whether the last area was used after it was unmapped, and puts the next one in its place. mu is held.
func (t *Areas) judge(next *void) {
	if err := t.last.close(); t.used == nil {
		t.used = err
	}
	t.last = next
}

// Leave ends a Use. If keep is set, the area stays mapped for ever, because the plugin may still use
// it.
func (t *Areas) Leave(a *Area, keep bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a.kept = a.kept || keep
	t.leave(a)
}

// Use returns a range of an area, which stays mapped until Leave.
func (t *Areas) Use(handle, at, size uint64) (*Area, []byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.areas[handle]
	if a == nil {
		return nil, nil, fmt.Errorf("region %d is not registered", handle)
	}
	if n := uint64(len(a.bytes)); at > n || size > n-at {
		return nil, nil, fmt.Errorf("%d bytes at %d reach past the end of a region of %d bytes", size, at, n)
	}
	a.users++
	return a, a.bytes[at : at+size : at+size], nil
}
