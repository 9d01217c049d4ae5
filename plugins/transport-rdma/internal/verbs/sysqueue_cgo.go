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

func sysCreateChannel(l, c unsafe.Pointer) (h unsafe.Pointer, fd int, errno int32) {
	var ch channel
	if e := C.vb_create_channel(lib(l), device(c), &ch); e != 0 {
		return nil, -1, int32(e)
	}
	return unsafe.Pointer(ch), int(ch.fd), 0
}

func sysDestroyChannel(l, ch unsafe.Pointer) int32 {
	return int32(C.vb_destroy_channel(lib(l), channel(ch)))
}

func sysCreateCQ(l, c, ch unsafe.Pointer, entries, vector int) (h unsafe.Pointer, got int, errno int32) {
	var q cq
	e := C.vb_create_cq(lib(l), device(c), channel(ch), C.int(entries), C.int(vector), &q)
	if e != 0 {
		return nil, 0, int32(e)
	}
	return unsafe.Pointer(q), int(q.cq.cqe), 0
}

func sysDestroyCQ(q unsafe.Pointer) int32    { return int32(C.vb_destroy_cq(cq(q))) }
func sysArm(q unsafe.Pointer) int32          { return int32(C.vb_arm(cq(q))) }
func sysTakeCQEvents(q unsafe.Pointer) int32 { return int32(C.vb_take_events(cq(q))) }

func sysPoll(q unsafe.Pointer, dst []Result) (int, int32) {
	var errno C.int32_t
	n := C.vb_poll(cq(q), (*C.struct_vb_result)(unsafe.Pointer(&dst[0])), C.int(len(dst)), &errno)
	return int(n), int32(errno)
}

// sysStrays returns how many completions belonged to no request.
func sysStrays(q unsafe.Pointer) uint64 { return uint64(cq(q).strays) }

func sysCreateQP(p, q unsafe.Pointer, cfg QPConfig) (h unsafe.Pointer, num uint32, inline int, errno int32) {
	c := C.struct_vb_qp_config{
		tag:        C.uint64_t(cfg.Tag),
		depth:      C.uint32_t(cfg.Depth),
		inline_max: C.uint32_t(cfg.MaxInline),
		every:      C.uint32_t(cfg.SignalEvery),
	}
	var out qp
	if e := C.vb_create_qp(pd(p), cq(q), &c, &out); e != 0 {
		return nil, 0, 0, int32(e)
	}
	return unsafe.Pointer(out), uint32(out.num), int(out.inline_max), 0
}

func sysRetireQP(c, q unsafe.Pointer)     { C.vb_retire_qp(cq(c), qp(q)) }
func sysDestroyQP(q unsafe.Pointer) int32 { return int32(C.vb_destroy_qp(qp(q))) }
func sysOutstanding(q unsafe.Pointer) int { return int(C.vb_outstanding(qp(q))) }
func sysToErr(q unsafe.Pointer) int32     { return int32(C.vb_to_err(qp(q))) }

func sysPost(q unsafe.Pointer, wrs []WR) (int, int32) {
	var errno C.int32_t
	n := C.vb_post(qp(q), (*C.struct_vb_wr)(unsafe.Pointer(&wrs[0])), C.int(len(wrs)), &errno)
	return int(n), int32(errno)
}

func sysToInit(q unsafe.Pointer, a InitAttr) int32 {
	return int32(C.vb_modify(qp(q), &C.struct_abi_qp_attr{
		qp_state:        C.ABI_QPS_INIT,
		port_num:        C.uint8_t(a.Port),
		pkey_index:      C.uint16_t(a.PKeyIndex),
		qp_access_flags: C.uint32_t(a.Access),
	}, C.ABI_QP_STATE|C.ABI_QP_PORT|C.ABI_QP_PKEY_INDEX|C.ABI_QP_ACCESS_FLAGS))
}

func sysToRTR(q unsafe.Pointer, a RTRAttr, mtu uint32) int32 {
	return int32(C.vb_modify(qp(q), &C.struct_abi_qp_attr{
		qp_state:           C.ABI_QPS_RTR,
		path_mtu:           C.int32_t(mtu),
		dest_qp_num:        C.uint32_t(a.PeerQP),
		rq_psn:             C.uint32_t(a.PeerPSN),
		max_dest_rd_atomic: C.uint8_t(a.ReadsIn),
		min_rnr_timer:      C.uint8_t(a.MinRNRTimer),
		ah_attr: C.struct_abi_ah_attr{
			dgid:          a.PeerGID,
			sgid_index:    C.uint8_t(a.GIDIndex),
			hop_limit:     C.uint8_t(a.HopLimit),
			traffic_class: C.uint8_t(a.TrafficClass),
			dlid:          C.uint16_t(a.PeerLID),
			sl:            C.uint8_t(a.ServiceLevel),
			is_global:     1,
			port_num:      C.uint8_t(a.Port),
		},
	}, C.ABI_QP_STATE|C.ABI_QP_AV|C.ABI_QP_PATH_MTU|C.ABI_QP_DEST_QPN|C.ABI_QP_RQ_PSN|
		C.ABI_QP_MAX_DEST_RD_ATOMIC|C.ABI_QP_MIN_RNR_TIMER))
}

func sysToRTS(q unsafe.Pointer, a RTSAttr) int32 {
	return int32(C.vb_modify(qp(q), &C.struct_abi_qp_attr{
		qp_state:      C.ABI_QPS_RTS,
		sq_psn:        C.uint32_t(a.PSN),
		timeout:       C.uint8_t(a.Timeout),
		retry_cnt:     C.uint8_t(a.RetryCount),
		rnr_retry:     C.uint8_t(a.RNRRetry),
		max_rd_atomic: C.uint8_t(a.ReadsOut),
	}, C.ABI_QP_STATE|C.ABI_QP_SQ_PSN|C.ABI_QP_TIMEOUT|C.ABI_QP_RETRY_CNT|C.ABI_QP_RNR_RETRY|C.ABI_QP_MAX_QP_RD_ATOMIC))
}

func sysQueryQP(q unsafe.Pointer) (QPInfo, int32) {
	var a C.struct_abi_qp_attr
	errno := C.vb_query_qp(qp(q), &a)
	return QPInfo{
		State: QPState(a.qp_state), MTU: mtuBytes(uint32(a.path_mtu)), PeerQP: uint32(a.dest_qp_num), Retry: uint8(a.retry_cnt),
	}, int32(errno)
}
