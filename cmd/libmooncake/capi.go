package main

/*
#include "cgo.h"
*/
import "C"

import (
	"context"
	"strconv"
	"unsafe"

	"github.com/mooncake-go/mooncake/core/bindings/store"
	"github.com/mooncake-go/mooncake/core/model"
)

// wrong is the status for an invalid argument.
const wrong = -1

// or returns a text of C, or instead for NULL.
func or(p *C.mck_const_char, instead string) string {
	if p == nil {
		return instead
	}
	return C.GoString(p)
}

// placing returns the placement that C asks for.
func placing(c *C.mck_const_config) *store.Replicate {
	r := &store.Replicate{ReplicaNum: 1}
	if c == nil {
		return r
	}
	r.ReplicaNum, r.HardPin = uint64(c.replica_num), c.with_hard_pin != 0
	if c.with_soft_pin != 0 {
		r.SoftPinAction = int32(model.SoftPinEnable)
	}
	if c.preferred_segments != nil && c.preferred_segments_count <= maxBatch {
		for _, p := range view[*C.char](c.preferred_segments, c.preferred_segments_count) {
			if p != nil {
				r.PreferredSegments = append(r.PreferredSegments, C.GoString(p))
			}
		}
	}
	return r
}

// keysOf copies keys. It returns false if a key is missing or n is too large.
func keysOf(keys *C.mck_const_text, n C.size_t) ([]string, bool) {
	if keys == nil || n > maxBatch {
		return nil, false
	}
	out := make([]string, n)
	for i, p := range view[*C.char](keys, n) {
		if p == nil {
			return nil, false
		}
		out[i] = C.GoString(p)
	}
	return out, true
}

// single returns the memory of one object in one fragment.
func single(at unsafe.Pointer, n C.size_t) store.Fragments {
	return store.Fragments{Ptrs: []uint64{uint64(uintptr(at))}, Sizes: []uint64{uint64(n)}}
}

//export mooncake_store_create
func mooncake_store_create() C.mooncake_store_t { return C.mooncake_store_t(newStore()) }

//export mooncake_store_destroy
func mooncake_store_destroy(s C.mooncake_store_t) { free[*store.Store](int64(s)) }

//export mooncake_store_setup
func mooncake_store_setup(s C.mooncake_store_t, hostname, metadata *C.mck_const_char, segment, buffer C.uint64_t,
	protocol, device, master *C.mck_const_char) C.int {
	return setup(s, map[string]string{
		"local_hostname": or(hostname, ""), "metadata_server": or(metadata, ""),
		"global_segment_size": strconv.FormatUint(uint64(segment), 10), "local_buffer_size": strconv.FormatUint(uint64(buffer), 10),
		"protocol": or(protocol, ""), "rdma_devices": or(device, ""), "master_server_addr": or(master, ""),
	})
}

//export mooncake_store_init_all
func mooncake_store_init_all(s C.mooncake_store_t, protocol, device *C.mck_const_char, segment C.uint64_t) C.int {
	return setup(s, map[string]string{
		"local_hostname": "localhost:12345", "metadata_server": "127.0.0.1:2379",
		"global_segment_size": strconv.FormatUint(uint64(segment), 10), "local_buffer_size": strconv.FormatUint(1<<30, 10),
		"protocol": or(protocol, ""), "rdma_devices": or(device, ""),
	})
}

func setup(s C.mooncake_store_t, given map[string]string) C.int {
	return withStore(s, wrong, func(t *store.Store) C.int { return C.int(t.Setup(context.Background(), given, true, nil)) })
}

//export mooncake_store_health_check
func mooncake_store_health_check(s C.mooncake_store_t) C.int {
	return withStore(s, 1, func(t *store.Store) C.int { return C.int(t.Health()) })
}

//export mooncake_store_get_hostname
func mooncake_store_get_hostname(s C.mooncake_store_t, out *C.char, size C.size_t) C.int {
	return withStore(s, wrong, func(t *store.Store) C.int {
		if out == nil {
			return wrong
		}
		name := t.Hostname()
		if name == "" || uint64(len(name)) >= uint64(size) {
			return wrong
		}
		to := view[byte](out, size)
		to[copy(to, name)] = 0
		return 0
	})
}

//export mooncake_store_register_buffer
func mooncake_store_register_buffer(s C.mooncake_store_t, at unsafe.Pointer, size C.size_t) C.int {
	return withStore(s, wrong, func(t *store.Store) C.int { return C.int(t.Register(uint64(uintptr(at)), uint64(size))) })
}

//export mooncake_store_unregister_buffer
func mooncake_store_unregister_buffer(s C.mooncake_store_t, at unsafe.Pointer) C.int {
	return withStore(s, wrong, func(t *store.Store) C.int { return C.int(t.Unregister(uint64(uintptr(at)))) })
}
