package verbs

import (
	"fmt"
	"sync"
	"syscall"
	"unsafe"
)

// Access is what may be done with registered memory, or through a QP.
type Access uint32

// The rights, to be combined.
const (
	AccessLocalWrite  Access = 1 << 0
	AccessRemoteWrite Access = 1 << 1
	AccessRemoteRead  Access = 1 << 2
	// AccessRelaxedOrdering lets the device's writes pass each other on the bus. It is dropped
	// silently where the library does not know it.
	AccessRelaxedOrdering Access = 1 << 20
)

// PD is a protection domain: QPs use only the MRs of their own.
type PD struct {
	refs refs
	h    unsafe.Pointer
	c    *Context
}

// AllocPD makes a protection domain.
func (c *Context) AllocPD() (*PD, error) {
	p := &PD{c: c, refs: refs{parent: &c.refs}}
	p.refs.free = func() error { return c.fail("ibv_dealloc_pd", sysDeallocPD(c.lib.h, p.h), "") }
	err := c.refs.adopt(func() error {
		var errno int32
		p.h, errno = sysAllocPD(c.lib.h, c.h)
		return c.fail("ibv_alloc_pd", errno, "")
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Close frees the PD once its MRs and QPs are closed. Repeatable.
func (p *PD) Close() error { return p.refs.close() }

// MR is registered memory.
type MR struct {
	mu         sync.Mutex
	h          unsafe.Pointer
	p          *PD
	mem        []byte // nil when the caller keeps the memory
	addr, size uint64
	lkey, rkey uint32
}

// RegMR registers a slice, which must not be empty, and keeps it alive until Close. Memory that
// peers may write needs AccessLocalWrite too. The pages are pinned meanwhile: ENOMEM may mean
// RLIMIT_MEMLOCK. It can take seconds for many GiB; several calls may run at the same time.
func (p *PD) RegMR(mem []byte, access Access) (*MR, error) {
	if len(mem) == 0 {
		return nil, p.c.fail("ibv_reg_mr", int32(syscall.EINVAL), "0 bytes")
	}
	m, err := p.RegRange(uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))), uint64(len(mem)), access)
	if err != nil {
		return nil, err
	}
	m.mem = mem
	return m, nil
}

// RegRange registers size bytes at addr: memory of this process, or of a GPU whose driver
// registers by address. The caller keeps it mapped until Close returned.
func (p *PD) RegRange(addr, size uint64, access Access) (*MR, error) {
	return p.register("ibv_reg_mr", addr, size, func(m *MR) (errno int32) {
		m.h, m.lkey, m.rkey, errno = sysRegMR(p.c.lib.h, p.h, addr, size, p.allowed(access))
		return errno
	})
}

// RegDMABuf registers size bytes from offset on of a dma-buf, such as the memory of a GPU. Work
// requests and peers address it from iova on, usually the GPU's virtual address. The descriptor
// may be closed afterwards. ErrUnsupported where the library is too old.
func (p *PD) RegDMABuf(fd int, offset, size, iova uint64, access Access) (*MR, error) {
	if !p.c.lib.has(featDMABuf) {
		return nil, fmt.Errorf("%w: dma-buf registration", ErrUnsupported)
	}
	return p.register("ibv_reg_dmabuf_mr", iova, size, func(m *MR) (errno int32) {
		m.h, m.lkey, m.rkey, errno = sysRegDMABuf(p.c.lib.h, p.h, offset, size, iova, fd, p.allowed(access))
		return errno
	})
}

// allowed drops the right to relaxed ordering where the library does not know it.
func (p *PD) allowed(a Access) Access {
	if !p.c.lib.has(featRelaxed) {
		a &^= AccessRelaxedOrdering
	}
	return a
}

func (p *PD) register(call string, addr, size uint64, do func(*MR) int32) (*MR, error) {
	m := &MR{p: p, addr: addr, size: size}
	if err := p.refs.adopt(func() error { return m.fail(call, do(m)) }); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *MR) fail(call string, errno int32) error {
	return m.p.c.fail(call, errno, fmt.Sprintf("%d bytes at %#x", m.size, m.addr))
}

// Addr returns the address that work requests and peers use for the first byte.
func (m *MR) Addr() uint64 { return m.addr }

// Len returns the length in bytes.
func (m *MR) Len() uint64 { return m.size }

// LKey returns the key for the local side of work requests.
func (m *MR) LKey() uint32 { return m.lkey }

// RKey returns the key for peers.
func (m *MR) RKey() uint32 { return m.rkey }

// Close ends the registration. After it returned nil neither this side's requests nor peers
// touch the memory; requests in flight fail. Repeatable.
func (m *MR) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.h == nil {
		return nil
	}
	if err := m.fail("ibv_dereg_mr", sysDeregMR(m.p.c.lib.h, m.h)); err != nil {
		return err
	}
	m.h, m.mem = nil, nil
	return m.p.refs.drop()
}
