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

//export mooncake_store_put
func mooncake_store_put(s C.mooncake_store_t, key *C.mck_const_char, value C.mck_const_memory, size C.size_t, config *C.mck_const_config) C.int {
	return putOne(s, key, unsafe.Pointer(value), size, config)
}

//export mooncake_store_put_from
func mooncake_store_put_from(s C.mooncake_store_t, key *C.mck_const_char, at unsafe.Pointer, size C.size_t, config *C.mck_const_config) C.int {
	return putOne(s, key, at, size, config)
}

func putOne(s C.mooncake_store_t, key *C.mck_const_char, at unsafe.Pointer, size C.size_t, config *C.mck_const_config) C.int {
	if at == nil && size > 0 {
		return wrong
	}
	return C.int(one(s, key, func(t *store.Store, keys []string, out []int64) {
		call(t, uint64(size), func(t *store.Store) { t.Put(keys, single(at, size), placing(config), 0, out) })
	}))
}

//export mooncake_store_batch_put_from
func mooncake_store_batch_put_from(s C.mooncake_store_t, keys *C.mck_const_text, at *unsafe.Pointer, sizes *C.mck_const_size, n C.size_t,
	config *C.mck_const_config, results *C.int) C.int {
	return batch(s, keys, n, at != nil && sizes != nil && results != nil, func(t *store.Store, names []string) {
		out, p := make([]int64, n), many(at, sizes, n)
		call(t, total(p.Sizes), func(t *store.Store) { t.Put(names, p, placing(config), 0, out) })
		narrow(results, out)
	})
}

//export mooncake_store_get_into
func mooncake_store_get_into(s C.mooncake_store_t, key *C.mck_const_char, at unsafe.Pointer, size C.size_t) C.int64_t {
	if at == nil {
		return wrong
	}
	return C.int64_t(one(s, key, func(t *store.Store, keys []string, out []int64) {
		call(t, uint64(size), func(t *store.Store) { t.GetInto(keys, single(at, size), out) })
	}))
}

//export mooncake_store_batch_get_into
func mooncake_store_batch_get_into(s C.mooncake_store_t, keys *C.mck_const_text, at *unsafe.Pointer, sizes *C.mck_const_size, n C.size_t,
	results *C.int64_t) C.int {
	return batch(s, keys, n, at != nil && sizes != nil && results != nil, func(t *store.Store, names []string) {
		p := many(at, sizes, n)
		call(t, total(p.Sizes), func(t *store.Store) { t.GetInto(names, p, view[int64](results, n)) })
	})
}

// many returns the memory of objects in one fragment each. Addresses and sizes of C have 64 bits.
func many(at *unsafe.Pointer, sizes *C.mck_const_size, n C.size_t) store.Fragments {
	return store.Fragments{Ptrs: view[uint64](at, n), Sizes: view[uint64](sizes, n)}
}

// narrow writes results as ints.
func narrow(to *C.int, results []int64) {
	out := view[C.int](to, C.uint64_t(len(results)))
	for i, r := range results {
		out[i] = C.int(r)
	}
}

// one calls do for one key and returns the key's result.
func one(s C.mooncake_store_t, key *C.mck_const_char, do func(*store.Store, []string, []int64)) int64 {
	return withStore(s, wrong, func(t *store.Store) int64 {
		if key == nil {
			return wrong
		}
		var out [1]int64
		do(t, []string{or(key, "")}, out[:])
		return out[0]
	})
}

// batch calls do for n keys. complete reports that no other argument is missing.
func batch(s C.mooncake_store_t, keys *C.mck_const_text, n C.size_t, complete bool, do func(t *store.Store, names []string)) C.int {
	return withStore(s, wrong, func(t *store.Store) C.int {
		names, ok := keysOf(keys, n)
		if !ok || !complete {
			return wrong
		}
		do(t, names)
		return 0
	})
}

//export mooncake_store_is_exist
func mooncake_store_is_exist(s C.mooncake_store_t, key *C.mck_const_char) C.int {
	return C.int(one(s, key, (*store.Store).Exist))
}

//export mooncake_store_batch_is_exist
func mooncake_store_batch_is_exist(s C.mooncake_store_t, keys *C.mck_const_text, n C.size_t, results *C.int) C.int {
	return batch(s, keys, n, results != nil, func(t *store.Store, names []string) {
		out := make([]int64, n)
		t.Exist(names, out)
		narrow(results, out)
	})
}

//export mooncake_store_get_size
func mooncake_store_get_size(s C.mooncake_store_t, key *C.mck_const_char) C.int64_t {
	return C.int64_t(one(s, key, (*store.Store).Size))
}

//export mooncake_store_remove
func mooncake_store_remove(s C.mooncake_store_t, key *C.mck_const_char, force C.int) C.int {
	return C.int(one(s, key, func(s *store.Store, keys []string, out []int64) { s.Remove(keys, force != 0, out) }))
}

//export mooncake_store_remove_by_regex
func mooncake_store_remove_by_regex(s C.mooncake_store_t, pattern *C.mck_const_char, force C.int) C.int64_t {
	return withStore(s, wrong, func(t *store.Store) C.int64_t {
		if pattern == nil {
			return wrong
		}
		return C.int64_t(t.RemoveByRegex(or(pattern, ""), force != 0))
	})
}

//export mooncake_store_remove_all
func mooncake_store_remove_all(s C.mooncake_store_t, force C.int) C.int64_t {
	return withStore(s, wrong, func(t *store.Store) C.int64_t { return C.int64_t(t.RemoveAll(force != 0)) })
}
