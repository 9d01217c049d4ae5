//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

package verbs

// #include "plane.h"
import "C"

import "unsafe"

// WR and Result have the layout of the C types: their sizes are compared here when this is
// compiled, their fields in a test.
var (
	_ = [1]byte{}[unsafe.Sizeof(WR{})-C.sizeof_struct_vb_wr]
	_ = [1]byte{}[unsafe.Sizeof(Result{})-C.sizeof_struct_vb_result]
)

func sysCreateChannel(c unsafe.Pointer) (h unsafe.Pointer, fd int, errno int32) {
	var ch *C.struct_vb_channel
	if e := C.vb_create_channel((*C.struct_vb_ctx)(c), &ch); e != 0 {
		return nil, -1, int32(e)
	}
	return unsafe.Pointer(ch), int(ch.ch.fd), 0
}

func sysDestroyChannel(ch unsafe.Pointer) int32 {
	return int32(C.vb_destroy_channel((*C.struct_vb_channel)(ch)))
}

func sysCreateCQ(c, ch unsafe.Pointer, entries, vector int) (h unsafe.Pointer, got int, errno int32) {
	var cq *C.struct_vb_cq
	e := C.vb_create_cq((*C.struct_vb_ctx)(c), (*C.struct_vb_channel)(ch), C.int(entries), C.int(vector), &cq)
	if e != 0 {
		return nil, 0, int32(e)
	}
	return unsafe.Pointer(cq), int(cq.cq.cqe), 0
}

func sysDestroyCQ(cq unsafe.Pointer) int32    { return int32(C.vb_destroy_cq((*C.struct_vb_cq)(cq))) }
func sysArm(cq unsafe.Pointer) int32          { return int32(C.vb_arm((*C.struct_vb_cq)(cq))) }
func sysTakeCQEvents(cq unsafe.Pointer) int32 { return int32(C.vb_take_events((*C.struct_vb_cq)(cq))) }

func sysPoll(cq unsafe.Pointer, dst []Result) (int, int32) {
	var errno C.int32_t
	n := C.vb_poll((*C.struct_vb_cq)(cq), (*C.struct_vb_result)(unsafe.Pointer(&dst[0])), C.int(len(dst)), &errno)
	return int(n), int32(errno)
}

// sysStrays returns how many completions belonged to no request.
func sysStrays(cq unsafe.Pointer) uint64 { return uint64((*C.struct_vb_cq)(cq).strays) }

func sysCreateQP(p, cq unsafe.Pointer, cfg QPConfig) (h unsafe.Pointer, num uint32, inline int, errno int32) {
	c := C.struct_vb_qp_config{
		tag:        C.uint64_t(cfg.Tag),
		depth:      C.uint32_t(cfg.Depth),
		inline_max: C.uint32_t(cfg.MaxInline),
		every:      C.uint32_t(cfg.SignalEvery),
	}
	var qp *C.struct_vb_qp
	if e := C.vb_create_qp((*C.struct_vb_pd)(p), (*C.struct_vb_cq)(cq), &c, &qp); e != 0 {
		return nil, 0, 0, int32(e)
	}
	return unsafe.Pointer(qp), uint32(qp.num), int(qp.inline_max), 0
}

func sysRetireQP(cq, qp unsafe.Pointer) {
	C.vb_retire_qp((*C.struct_vb_cq)(cq), (*C.struct_vb_qp)(qp))
}

func sysDestroyQP(qp unsafe.Pointer) int32 { return int32(C.vb_destroy_qp((*C.struct_vb_qp)(qp))) }

func sysOutstanding(qp unsafe.Pointer) int { return int(C.vb_outstanding((*C.struct_vb_qp)(qp))) }

func sysPost(qp unsafe.Pointer, wrs []WR) (int, int32) {
	var errno C.int32_t
	n := C.vb_post((*C.struct_vb_qp)(qp), (*C.struct_vb_wr)(unsafe.Pointer(&wrs[0])), C.int(len(wrs)), &errno)
	return int(n), int32(errno)
}

func sysToInit(qp unsafe.Pointer, a InitAttr) int32 {
	return int32(C.vb_to_init((*C.struct_vb_qp)(qp), C.uint8_t(a.Port), C.uint16_t(a.PKeyIndex), C.uint32_t(a.Access)))
}

func sysToRTR(qp unsafe.Pointer, a RTRAttr, mtu uint32) int32 {
	r := C.struct_vb_rtr{
		mtu:           C.uint32_t(mtu),
		qpn:           C.uint32_t(a.PeerQP),
		psn:           C.uint32_t(a.PeerPSN),
		lid:           C.uint16_t(a.PeerLID),
		port:          C.uint8_t(a.Port),
		gid_index:     C.uint8_t(a.GIDIndex),
		hop_limit:     C.uint8_t(a.HopLimit),
		traffic_class: C.uint8_t(a.TrafficClass),
		sl:            C.uint8_t(a.ServiceLevel),
		reads_in:      C.uint8_t(a.ReadsIn),
		rnr_timer:     C.uint8_t(a.MinRNRTimer),
	}
	r.gid = *(*[16]C.uint8_t)(unsafe.Pointer(&a.PeerGID))
	return int32(C.vb_to_rtr((*C.struct_vb_qp)(qp), &r))
}

func sysToRTS(qp unsafe.Pointer, a RTSAttr) int32 {
	r := C.struct_vb_rts{
		psn:       C.uint32_t(a.PSN),
		timeout:   C.uint8_t(a.Timeout),
		retry:     C.uint8_t(a.RetryCount),
		rnr_retry: C.uint8_t(a.RNRRetry),
		reads_out: C.uint8_t(a.ReadsOut),
	}
	return int32(C.vb_to_rts((*C.struct_vb_qp)(qp), &r))
}

func sysToErr(qp unsafe.Pointer) int32 { return int32(C.vb_to_err((*C.struct_vb_qp)(qp))) }

func sysQueryQP(qp unsafe.Pointer) (QPInfo, int32) {
	var a C.struct_abi_qp_attr
	if errno := C.vb_query_qp((*C.struct_vb_qp)(qp), &a); errno != 0 {
		return QPInfo{}, int32(errno)
	}
	return QPInfo{
		State:     QPState(a.qp_state),
		MTU:       mtuBytes(uint32(a.path_mtu)),
		PeerQP:    uint32(a.dest_qp_num),
		MaxInline: int(a.cap.max_inline_data),
		Timeout:   uint8(a.timeout),
		Retry:     uint8(a.retry_cnt),
		ReadsIn:   uint8(a.max_dest_rd_atomic),
		ReadsOut:  uint8(a.max_rd_atomic),
	}, 0
}
