//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

package verbs

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
#cgo linux LDFLAGS: -ldl
#cgo noescape vb_poll
#cgo nocallback vb_poll
#cgo noescape vb_post
#cgo nocallback vb_post
#cgo nocallback vb_outstanding
#include <stdlib.h>
#include "plane.h"
*/
import "C"

import (
	"encoding/binary"
	"unsafe"
)

func sysOpen(path string) (unsafe.Pointer, uint32, string) {
	p := C.CString(path)
	defer C.free(unsafe.Pointer(p))
	var reason [512]C.char
	var feat C.uint32_t
	lib := C.vb_load(p, &reason[0], C.size_t(len(reason)), &feat)
	if lib == nil {
		return nil, 0, C.GoString(&reason[0])
	}
	return unsafe.Pointer(lib), uint32(feat), ""
}

func sysForkInit(lib unsafe.Pointer) int32 {
	return int32(C.vb_fork_init((*C.struct_vb_lib)(lib)))
}

func sysDevices(lib unsafe.Pointer) ([]DeviceInfo, int32) {
	l := (*C.struct_vb_lib)(lib)
	var list **C.struct_abi_device
	var n C.int
	if errno := C.vb_devices(l, &list, &n); errno != 0 || list == nil {
		return nil, int32(errno)
	}
	defer C.vb_free_devices(l, list)
	out := make([]DeviceInfo, 0, int(n))
	for _, d := range unsafe.Slice(list, int(n)) {
		out = append(out, goDevice(d, C.vb_device_guid(l, d)))
	}
	return out, 0
}

func goDevice(d *C.struct_abi_device, guid C.uint64_t) DeviceInfo {
	return DeviceInfo{
		Name:       goString(d.name[:]),
		UverbsPath: "/dev/infiniband/" + goString(d.dev_name[:]),
		SysfsPath:  goString(d.ibdev_path[:]),
		Node:       NodeType(d.node_type),
		IWARP:      d.transport_type == C.ABI_TRANSPORT_IWARP,
		GUID:       bigEndian(uint64(guid)),
	}
}

// goString reads a C array up to its first 0.
func goString(a []C.char) string {
	b := make([]byte, 0, len(a))
	for _, c := range a {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}

func bigEndian(v uint64) uint64 {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], v)
	return binary.BigEndian.Uint64(b[:])
}

func sysOpenDevice(lib unsafe.Pointer, name string) (opened, int32) {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	var o C.struct_vb_open
	errno := C.vb_open_device((*C.struct_vb_lib)(lib), n, &o)
	out := opened{call: "ibv_get_device_list"}
	if o.listed != 0 {
		out.call = "ibv_open_device"
		out.info = goDevice(&o.device, o.guid)
	}
	if errno == 0 {
		out.h = unsafe.Pointer(o.c)
		out.asyncFD, out.vectors = int(o.c.ctx.async_fd), int(o.c.ctx.num_comp_vectors)
	}
	return out, int32(errno)
}

func sysCloseDevice(c unsafe.Pointer) int32 { return int32(C.vb_close_device((*C.struct_vb_ctx)(c))) }

func sysQueryDevice(c unsafe.Pointer) (DeviceAttr, int32) {
	var a C.struct_abi_device_attr
	if errno := C.vb_query_device((*C.struct_vb_ctx)(c), &a); errno != 0 {
		return DeviceAttr{}, int32(errno)
	}
	return DeviceAttr{
		Firmware:        goString(a.fw_ver[:]),
		NodeGUID:        bigEndian(uint64(a.node_guid)),
		VendorID:        uint32(a.vendor_id),
		VendorPart:      uint32(a.vendor_part_id),
		HardwareVersion: uint32(a.hw_ver),
		MaxMRSize:       uint64(a.max_mr_size),
		PageSizes:       uint64(a.page_size_cap),
		MaxQP:           int(a.max_qp),
		MaxQPWR:         int(a.max_qp_wr),
		MaxSGE:          int(a.max_sge),
		MaxCQ:           int(a.max_cq),
		MaxCQE:          int(a.max_cqe),
		MaxMR:           int(a.max_mr),
		MaxPD:           int(a.max_pd),
		MaxReadsIn:      int(a.max_qp_rd_atom),
		MaxReadsOut:     int(a.max_qp_init_rd_atom),
		Ports:           int(a.phys_port_cnt),
	}, 0
}

func sysQueryPort(c unsafe.Pointer, port uint8) (PortAttr, int32) {
	var a C.struct_abi_port_attr
	if errno := C.vb_query_port((*C.struct_vb_ctx)(c), C.uint8_t(port), &a); errno != 0 {
		return PortAttr{}, int32(errno)
	}
	speed := uint32(a.active_speed_ex)
	if speed == 0 {
		speed = uint32(a.active_speed)
	}
	return PortAttr{
		State:      PortState(a.state),
		MaxMTU:     mtuBytes(uint32(a.max_mtu)),
		ActiveMTU:  mtuBytes(uint32(a.active_mtu)),
		LID:        uint16(a.lid),
		SMLID:      uint16(a.sm_lid),
		LinkLayer:  LinkLayer(a.link_layer),
		GIDs:       int(a.gid_tbl_len),
		PKeys:      int(a.pkey_tbl_len),
		MaxMessage: uint32(a.max_msg_sz),
		Speed:      portSpeed(uint32(a.active_width), speed),
	}, 0
}

func sysGIDTable(c unsafe.Pointer, port uint32, size int) ([]GID, int32) {
	entries := make([]C.struct_abi_gid_entry, max(1, size))
	var n C.size_t
	errno := C.vb_gid_table((*C.struct_vb_ctx)(c), &entries[0], C.size_t(len(entries)), &n)
	var out []GID
	for i := range entries[:n] {
		if e := &entries[i]; uint32(e.port_num) == port {
			if g := goGID(e); !g.Zero() {
				out = append(out, g)
			}
		}
	}
	return out, int32(errno)
}

func goGID(e *C.struct_abi_gid_entry) GID {
	return GID{
		Addr:     *(*[16]byte)(unsafe.Pointer(&e.gid)),
		Index:    int(e.gid_index),
		Type:     GIDType(e.gid_type),
		NetIndex: int(e.ndev_ifindex),
	}
}

func sysGIDEx(c unsafe.Pointer, port, index uint32) (GID, int32) {
	var e C.struct_abi_gid_entry
	errno := C.vb_gid_ex((*C.struct_vb_ctx)(c), C.uint32_t(port), C.uint32_t(index), &e)
	return goGID(&e), int32(errno)
}

func sysGID(c unsafe.Pointer, port uint8, index int) (addr [16]byte, errno int32) {
	var g C.union_abi_gid
	e := C.vb_gid((*C.struct_vb_ctx)(c), C.uint8_t(port), C.int(index), &g)
	return *(*[16]byte)(unsafe.Pointer(&g)), int32(e)
}

func sysNextEvent(c unsafe.Pointer) (Event, int32) {
	var e C.struct_vb_event
	errno := C.vb_next_event((*C.struct_vb_ctx)(c), &e)
	return Event{Type: EventType(e._type), Port: int(e.port), QP: uint32(e.qp), Tag: uint64(e.tag)}, int32(errno)
}

func sysAllocPD(c unsafe.Pointer) (unsafe.Pointer, int32) {
	var p *C.struct_vb_pd
	errno := C.vb_alloc_pd((*C.struct_vb_ctx)(c), &p)
	return unsafe.Pointer(p), int32(errno)
}

func sysDeallocPD(p unsafe.Pointer) int32 { return int32(C.vb_dealloc_pd((*C.struct_vb_pd)(p))) }

func sysRegMR(p unsafe.Pointer, addr, size uint64, access Access, relaxed bool) (h unsafe.Pointer, lkey, rkey uint32, errno int32) {
	var m *C.struct_vb_mr
	var r C.int
	if relaxed {
		r = 1
	}
	e := C.vb_reg_mr((*C.struct_vb_pd)(p), C.uint64_t(addr), C.uint64_t(size), C.uint32_t(access), r, &m)
	return goMR(m, e)
}

func sysRegDMABuf(p unsafe.Pointer, offset, size, iova uint64, fd int, access Access) (h unsafe.Pointer, lkey, rkey uint32, errno int32) {
	var m *C.struct_vb_mr
	e := C.vb_reg_dmabuf((*C.struct_vb_pd)(p), C.uint64_t(offset), C.uint64_t(size), C.uint64_t(iova), C.int(fd), C.uint32_t(access), &m)
	return goMR(m, e)
}

func goMR(m *C.struct_vb_mr, errno C.int32_t) (h unsafe.Pointer, lkey, rkey uint32, e int32) {
	if errno != 0 {
		return nil, 0, 0, int32(errno)
	}
	return unsafe.Pointer(m), uint32(m.mr.lkey), uint32(m.mr.rkey), 0
}

func sysDeregMR(m unsafe.Pointer) int32 { return int32(C.vb_dereg_mr((*C.struct_vb_mr)(m))) }
