package main

/*
#include "cgo.h"
*/
import "C"

import "github.com/mooncake-go/mooncake/core/bindings/store"

//export mck_store_get_session_start
func mck_store_get_session_start(s C.mck_handle, keys C.mck_texts, results *C.int64_t) {
	eachKey(s, keys, results, (*store.Store).StartGets)
}

//export mck_store_get_session_ranges
func mck_store_get_session_ranges(s C.mck_handle, keys C.mck_texts, to C.mck_pieces, at *C.mck_const_u64, results *C.int64_t) {
	moveKeys(s, keys, to, results, func(t *store.Store, keys []string, p store.Fragments, out []int64) {
		t.GetHeld(keys, p, offsets(at, p), out)
	})
}

//export mck_store_get_session_end
func mck_store_get_session_end(s C.mck_handle, keys C.mck_texts) C.int32_t {
	return withStore(s, C.MCK_INVALID_PARAMS, func(t *store.Store) C.int32_t { return C.int32_t(t.EndGets(texts(keys))) })
}

//export mck_store_put_session_start
func mck_store_put_session_start(s C.mck_handle, keys C.mck_texts, sizes *C.mck_const_u64, how *C.mck_const_replicate, results *C.int64_t) {
	r := replicate(how)
	eachKey(s, keys, results, func(t *store.Store, names []string, out []int64) {
		t.StartPuts(names, view[uint64](sizes, keys.n), &r, out)
	})
}

//export mck_store_put_session_ranges
func mck_store_put_session_ranges(s C.mck_handle, keys C.mck_texts, from C.mck_pieces, at *C.mck_const_u64, results *C.int64_t) {
	moveKeys(s, keys, from, results, func(t *store.Store, keys []string, p store.Fragments, out []int64) {
		t.PutHeld(keys, p, offsets(at, p), out)
	})
}

//export mck_store_put_session_end
func mck_store_put_session_end(s C.mck_handle, keys C.mck_texts, results *C.int64_t) {
	eachKey(s, keys, results, (*store.Store).EndPuts)
}

//export mck_store_put_session_revoke
func mck_store_put_session_revoke(s C.mck_handle, keys C.mck_texts, results *C.int64_t) {
	eachKey(s, keys, results, (*store.Store).RevokePuts)
}
