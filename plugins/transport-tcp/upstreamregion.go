package tcp

import "github.com/mooncake-go/mooncake/sdk/transport"

// acquireAt is acquire for a request of upstream, which names memory by its address alone.
func (t *regionTable) acquireAt(h *upHeader, by *serverConn) (*region, []byte, reason) {
	if why := h.check(); why != reasonNone {
		return nil, nil, why
	}
	t.mu.RLock()
	i := t.search(uintptr(h.Addr))
	var r *region
	if i < len(t.byAddr) {
		r = t.byAddr[i]
	}
	t.mu.RUnlock()
	if r == nil || uint64(r.start()) > h.Addr || r.access == transport.AccessLocal {
		return nil, nil, reasonUnknownRegion
	}
	offset := h.Addr - uint64(r.start())
	switch {
	case h.Size > uint64(len(r.mem))-offset:
		return nil, nil, reasonRange
	case h.Op == upRead && r.access&transport.AccessRemoteRead == 0:
		return nil, nil, reasonReadDenied
	case h.Op == upWrite && r.access&transport.AccessRemoteWrite == 0:
		return nil, nil, reasonWriteDenied
	}
	return r.hold(by, offset, h.Size)
}

// buffers lists the regions that peers may use, by address.
func (t *regionTable) buffers(name string) []transport.Buffer {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]transport.Buffer, 0, len(t.byAddr))
	for _, r := range t.byAddr {
		if r.access != transport.AccessLocal {
			out = append(out, transport.Buffer{Name: name, Addr: uint64(r.start()), Length: uint64(len(r.mem))})
		}
	}
	return out
}
