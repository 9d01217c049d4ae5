package main

/*
#include "cgo.h"
*/
import "C"

import (
	"github.com/mooncake-go/mooncake/core/bindings/store"
)

// The results of C are int64_t, which core/bindings/store writes in place.

// fragments returns the memory of p.n objects, each with the fragments in its row.
func fragments(p C.mck_pieces) store.Fragments {
	n := p.n
	var rows []uint64
	if p.rows != nil {
		rows = view[uint64](p.rows, p.n+1)
		n = C.uint64_t(rows[p.n])
	}
	return store.Fragments{Ptrs: view[uint64](p.ptrs, n), Sizes: view[uint64](p.sizes, n), Rows: rows}
}

// offsets returns one offset for each fragment of p.
func offsets(at *C.mck_const_u64, p store.Fragments) []uint64 {
	return view[uint64](at, C.uint64_t(len(p.Ptrs)))
}

func replicate(r *C.mck_const_replicate) store.Replicate {
	if r == nil {
		return store.Replicate{ReplicaNum: 1}
	}
	out := store.Replicate{
		ReplicaNum: uint64(r.replica_num), NoFReplicaNum: uint64(r.nof_replica_num), DFSReplicaNum: uint64(r.dfs_replica_num),
		SoftPinAction: int32(r.soft_pin_action), HardPin: r.with_hard_pin != 0, PreferNode: r.prefer_alloc_in_same_node != 0,
		DataType: int32(r.data_type), HasGroupIDs: r.has_group_ids != 0, PreferredSegments: texts(r.preferred_segments),
	}
	if r.has_soft_pin_ttl != 0 {
		ttl := uint64(r.soft_pin_ttl_ms)
		out.SoftPinTTL = &ttl
	}
	if out.HasGroupIDs {
		out.GroupIDs = texts(r.group_ids)
	}
	return out
}

// eachKey calls do, which gives every key a result. Without a store every result is
// MCK_INVALID_PARAMS.
func eachKey(s C.mck_handle, keys C.mck_texts, results *C.int64_t, do func(t *store.Store, keys []string, out []int64)) {
	out := view[int64](results, keys.n)
	fillUnless(withStore(s, false, func(t *store.Store) bool {
		do(t, texts(keys), out)
		return true
	}), out)
}

// moveKeys is eachKey for calls that move objects; see call.
func moveKeys(s C.mck_handle, keys C.mck_texts, what C.mck_pieces, results *C.int64_t, do func(t *store.Store, keys []string, p store.Fragments, out []int64)) {
	eachKey(s, keys, results, func(t *store.Store, keys []string, out []int64) {
		p := fragments(what)
		call(t, total(p.Sizes), func(t *store.Store) { do(t, keys, p, out) })
	})
}

//export mck_store_put
func mck_store_put(s C.mck_handle, keys C.mck_texts, from C.mck_pieces, how *C.mck_const_replicate, flags C.int32_t, results *C.int64_t) {
	r := replicate(how)
	moveKeys(s, keys, from, results, func(t *store.Store, keys []string, p store.Fragments, out []int64) {
		t.Put(keys, p, &r, store.PutFlags(flags), out)
	})
}

//export mck_store_get_into
func mck_store_get_into(s C.mck_handle, keys C.mck_texts, to C.mck_pieces, results *C.int64_t) {
	moveKeys(s, keys, to, results, func(t *store.Store, keys []string, p store.Fragments, out []int64) { t.GetInto(keys, p, out) })
}

//export mck_store_exist
func mck_store_exist(s C.mck_handle, keys C.mck_texts, results *C.int64_t) {
	eachKey(s, keys, results, (*store.Store).Exist)
}

//export mck_store_size
func mck_store_size(s C.mck_handle, keys C.mck_texts, results *C.int64_t) {
	eachKey(s, keys, results, (*store.Store).Size)
}

//export mck_store_remove
func mck_store_remove(s C.mck_handle, keys C.mck_texts, force C.int32_t, results *C.int64_t) {
	eachKey(s, keys, results, func(t *store.Store, keys []string, out []int64) { t.Remove(keys, force != 0, out) })
}

//export mck_store_clear_replicas
func mck_store_clear_replicas(s C.mck_handle, keys C.mck_texts, segment *C.mck_const_char, size C.uint64_t, results *C.int64_t) {
	eachKey(s, keys, results, func(t *store.Store, keys []string, out []int64) { t.ClearReplicas(keys, text(segment, size), out) })
}

//export mck_store_remove_regex
func mck_store_remove_regex(s C.mck_handle, expr *C.mck_const_char, size C.uint64_t, force C.int32_t) C.int64_t {
	return withStore(s, C.MCK_INVALID_PARAMS, func(t *store.Store) C.int64_t { return C.int64_t(t.RemoveByRegex(text(expr, size), force != 0)) })
}

//export mck_store_remove_all
func mck_store_remove_all(s C.mck_handle, force C.int32_t) C.int64_t {
	return withStore(s, C.MCK_INVALID_PARAMS, func(t *store.Store) C.int64_t { return C.int64_t(t.RemoveAll(force != 0)) })
}

//export mck_store_get_ranges
func mck_store_get_ranges(s C.mck_handle, bufs *C.mck_const_u64, n C.uint64_t, keyRows *C.mck_const_u64, keys C.mck_texts,
	fragRows, dst, src, sizes *C.mck_const_u64, results *C.int64_t) {
	rows := view[uint64](fragRows, keys.n+1)
	frags := C.uint64_t(rows[len(rows)-1])
	out := view[int64](results, frags)
	ranges := store.Ranges{
		Buffers: view[uint64](bufs, n), KeyRows: view[uint64](keyRows, n+1), FragRows: rows,
		DstOffsets: view[uint64](dst, frags), SrcOffsets: view[uint64](src, frags), Sizes: view[uint64](sizes, frags),
	}
	fillUnless(withStore(s, false, func(t *store.Store) bool {
		call(t, total(ranges.Sizes), func(t *store.Store) { t.GetRanges(texts(keys), ranges, out) })
		return true
	}), out)
}

//export mck_store_control
func mck_store_control(s C.mck_handle, method *C.mck_const_char, size C.uint64_t, args *C.mck_const_char, argsSize C.uint64_t) C.mck_blob {
	return withStore(s, blob(`{"code":-600}`), func(t *store.Store) C.mck_blob { return blob(t.Control(text(method, size), text(args, argsSize))) })
}

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
