package main

/*
#include "classic.h"
*/
import "C"

import (
	"unsafe"

	"github.com/mooncake-go/mooncake/core/bindings/engine"
	"github.com/mooncake-go/mooncake/core/bindings/upstream"
)

// shutdown ends the engines that asked for it when a signal arrives.
var shutdown upstream.Shutdown

//export enableGracefulShutdown
func enableGracefulShutdown(engine C.transfer_engine_t) {
	if h := int64(C.te_number(engine)); known(engine) == 0 {
		shutdown.Add(h, func() { free[*upstream.Engine](h) })
	}
}

//export getNotifsFromEngine
func getNotifsFromEngine(engine C.transfer_engine_t, size *C.int) *C.notify_msg_t {
	if size == nil {
		return nil
	}
	*size = 0
	list := withClassic(engine, nil, takeNotices)
	if len(list) == 0 {
		return nil
	}
	first := C.te_messages(C.size_t(len(list)))
	if first == nil {
		return nil
	}
	out := unsafe.Slice(first, len(list))
	for i, n := range list {
		out[i] = C.notify_msg_t{name: cstring(n.Name), msg: cstring(n.Message)}
	}
	*size = C.int(len(list))
	return first
}

func takeNotices(e *upstream.Engine) []engine.Notice {
	list, err := e.Notices()
	if err != nil {
		e.Log("getNotifsFromEngine", err)
	}
	return list
}

//export freeNotifsMsgBuf
func freeNotifsMsgBuf(list *C.notify_msg_t, size C.int) C.int {
	if list == nil {
		return 0
	}
	for _, n := range unsafe.Slice(list, int(max(size, 0))) {
		C.free(unsafe.Pointer(n.name))
		C.free(unsafe.Pointer(n.msg))
	}
	C.free(unsafe.Pointer(list))
	return 0
}

//export genNotifyInEngine
func genNotifyInEngine(engine C.transfer_engine_t, target C.uint64_t, notify C.notify_msg_t) C.int {
	return withClassic(engine, invalid, func(e *upstream.Engine) C.int {
		return result(e, "genNotifyInEngine", e.Notify(uint64(target), *notice(notify)))
	})
}

//export getNicLoadStats
func getNicLoadStats(engine C.transfer_engine_t, stats *C.nic_load_stat_t, count *C.size_t) C.int {
	return withClassic(engine, invalid, func(e *upstream.Engine) C.int {
		if stats == nil || count == nil {
			return invalid
		}
		loads := e.Loads()
		out := unsafe.Slice(stats, int(min(*count, C.size_t(len(loads)))))
		for i := range out {
			copyOut(&out[i].device_name[0], C.size_t(len(out[i].device_name)), loads[i].Device)
			out[i].inflight_bytes, out[i].ewma_bandwidth_bps = C.uint64_t(loads[i].Inflight), C.double(loads[i].Speed)
		}
		*count = C.size_t(len(loads))
		return 0
	})
}

//export showLinks
func showLinks(engine C.transfer_engine_t, buf *C.char, size C.size_t, json C.int) C.int {
	return withClassic(engine, invalid, func(e *upstream.Engine) C.int {
		if buf == nil || size == 0 {
			return invalid
		}
		picture, err := e.Links()
		if err != nil {
			return result(e, "showLinks", err)
		}
		text := picture.Text()
		if json != 0 {
			if text, err = picture.JSON(); err != nil {
				return result(e, "showLinks", err)
			}
		}
		copyOut(buf, size, text)
		return 0
	})
}
