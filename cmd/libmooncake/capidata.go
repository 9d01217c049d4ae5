package main

/*
#include "cgo.h"
*/
import "C"

import (
	"unsafe"

	"github.com/mooncake-go/mooncake/core/bindings/store"
)

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
