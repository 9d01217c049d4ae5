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
	"unsafe"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
)

// The handles of this package are pointers to the library's objects, and to struct vb_lib, vb_cq
// and vb_qp.
type (
	lib     = *C.struct_vb_lib
	device  = *C.struct_abi_context
	pd      = *C.struct_abi_pd
	mr      = *C.struct_abi_mr
	channel = *C.struct_abi_comp_channel
	cq      = *C.struct_vb_cq
	qp      = *C.struct_vb_qp
)

func sysOpen(path string) (unsafe.Pointer, uint32, string) {
	p := C.CString(path)
	defer C.free(unsafe.Pointer(p))
	var reason [512]C.char
	var feat C.uint32_t
	l := C.vb_load(p, &reason[0], C.size_t(len(reason)), &feat)
	if l == nil {
		return nil, 0, C.GoString(&reason[0])
	}
	return unsafe.Pointer(l), uint32(feat), ""
}

func sysForkInit(l unsafe.Pointer) int32 { return int32(C.vb_fork_init(lib(l))) }

func sysDevices(l unsafe.Pointer) ([]DeviceInfo, int32) {
	var list **C.struct_abi_device
	var n C.int
	if errno := C.vb_devices(lib(l), &list, &n); errno != 0 || list == nil {
		return nil, int32(errno)
	}
	defer C.vb_free_devices(lib(l), list)
	out := make([]DeviceInfo, 0, int(n))
	for _, d := range unsafe.Slice(list, int(n)) {
		out = append(out, goDevice(d))
	}
	return out, 0
}

func goDevice(d *C.struct_abi_device) DeviceInfo {
	return DeviceInfo{
		Name:       C.GoString(&d.name[0]),
		UverbsPath: "/dev/infiniband/" + C.GoString(&d.dev_name[0]),
		SysfsPath:  C.GoString(&d.ibdev_path[0]),
		IWARP:      d.transport_type == C.ABI_TRANSPORT_IWARP,
	}
}

// sysOpenDevice fills info in once it has found the device, also when opening it fails; call names
// the function that failed.
func sysOpenDevice(l unsafe.Pointer, name string, info *DeviceInfo) (h unsafe.Pointer, asyncFD, vectors int, call string, errno int32) {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	var o C.struct_vb_open
	errno = int32(C.vb_open_device(lib(l), n, &o))
	call = "ibv_get_device_list"
	if o.listed != 0 {
		call = "ibv_open_device"
	}
	if o.device.name[0] != 0 {
		*info = goDevice(&o.device)
	}
	if errno != 0 {
		return nil, 0, 0, call, errno
	}
	return unsafe.Pointer(o.ctx), int(o.ctx.async_fd), int(o.ctx.num_comp_vectors), "", 0
}

func sysCloseDevice(l, c unsafe.Pointer) int32 { return int32(C.vb_close_device(lib(l), device(c))) }

func sysQueryDevice(l, c unsafe.Pointer) (DeviceAttr, int32) {
	var a C.struct_abi_device_attr
	errno := C.vb_query_device(lib(l), device(c), &a)
	return DeviceAttr{
		MaxMRSize:   uint64(a.max_mr_size),
		MaxQP:       int(a.max_qp),
		MaxQPWR:     int(a.max_qp_wr),
		MaxCQE:      int(a.max_cqe),
		MaxMR:       int(a.max_mr),
		MaxReadsIn:  int(a.max_qp_rd_atom),
		MaxReadsOut: int(a.max_qp_init_rd_atom),
		Ports:       int(a.phys_port_cnt),
	}, int32(errno)
}

func sysQueryPort(l, c unsafe.Pointer, port uint8) (PortAttr, int32) {
	var a C.struct_abi_port_attr
	if errno := C.vb_query_port(lib(l), device(c), C.uint8_t(port), &a); errno != 0 {
		return PortAttr{}, int32(errno)
	}
	speed := uint32(a.active_speed_ex)
	if speed == 0 {
		speed = uint32(a.active_speed)
	}
	return PortAttr{
		Active:     a.state == C.ABI_PORT_ACTIVE,
		ActiveMTU:  mtuBytes(uint32(a.active_mtu)),
		LID:        uint16(a.lid),
		GIDs:       int(a.gid_tbl_len),
		MaxMessage: uint32(a.max_msg_sz),
		Speed:      portSpeed(uint32(a.active_width), speed),
	}, 0
}

func sysGIDTable(l, c unsafe.Pointer, port uint32, size int) ([]gid.Entry, int32) {
	entries := make([]C.struct_abi_gid_entry, max(1, size))
	var n C.size_t
	errno := C.vb_gid_table(lib(l), device(c), &entries[0], C.size_t(len(entries)), &n)
	var out []gid.Entry
	for i := range entries[:n] {
		if e := &entries[i]; uint32(e.port_num) == port && !gid.GID(e.gid).Zero() {
			out = append(out, goGID(e))
		}
	}
	return out, int32(errno)
}

func goGID(e *C.struct_abi_gid_entry) gid.Entry {
	return gid.Entry{Index: int(e.gid_index), GID: e.gid, Type: gid.Type(e.gid_type), Netdev: netdev(int(e.ndev_ifindex))}
}

func sysGIDEx(l, c unsafe.Pointer, port, index uint32) (gid.Entry, int32) {
	var e C.struct_abi_gid_entry
	errno := C.vb_gid_ex(lib(l), device(c), C.uint32_t(port), C.uint32_t(index), &e)
	return goGID(&e), int32(errno)
}

func sysGID(l, c unsafe.Pointer, port uint8, index int) (addr gid.GID, errno int32) {
	var g C.union_abi_gid
	e := C.vb_gid(lib(l), device(c), C.uint8_t(port), C.int(index), &g)
	return g, int32(e)
}

func sysNextEvent(l, c unsafe.Pointer) (Event, int32) {
	var e C.struct_vb_event
	errno := C.vb_next_event(lib(l), device(c), &e)
	return Event{Type: EventType(e._type), Port: int(e.port), QP: uint32(e.qp), Tag: uint64(e.tag)}, int32(errno)
}

func sysAllocPD(l, c unsafe.Pointer) (unsafe.Pointer, int32) {
	var p pd
	errno := C.vb_alloc_pd(lib(l), device(c), &p)
	return unsafe.Pointer(p), int32(errno)
}

func sysDeallocPD(l, p unsafe.Pointer) int32 { return int32(C.vb_dealloc_pd(lib(l), pd(p))) }

func sysRegMR(l, p unsafe.Pointer, addr, size uint64, access Access) (h unsafe.Pointer, lkey, rkey uint32, errno int32) {
	var m mr
	e := C.vb_reg_mr(lib(l), pd(p), C.uint64_t(addr), C.uint64_t(size), C.uint32_t(access), &m)
	return goMR(m, e)
}

func sysRegDMABuf(l, p unsafe.Pointer, offset, size, iova uint64, fd int, access Access) (h unsafe.Pointer, lkey, rkey uint32, errno int32) {
	var m mr
	e := C.vb_reg_dmabuf(lib(l), pd(p), C.uint64_t(offset), C.uint64_t(size), C.uint64_t(iova), C.int(fd), C.uint32_t(access), &m)
	return goMR(m, e)
}

func goMR(m mr, errno C.int32_t) (h unsafe.Pointer, lkey, rkey uint32, e int32) {
	if errno != 0 {
		return nil, 0, 0, int32(errno)
	}
	return unsafe.Pointer(m), uint32(m.lkey), uint32(m.rkey), 0
}

func sysDeregMR(l, m unsafe.Pointer) int32 { return int32(C.vb_dereg_mr(lib(l), mr(m))) }
