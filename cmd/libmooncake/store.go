package main

/*
#include "cgo.h"
*/
import "C"

import (
	"encoding/json"
	"os"

	"github.com/mooncake-go/mooncake/cmd/libmooncake/internal/handles"
	"github.com/mooncake-go/mooncake/cmd/libmooncake/internal/settings"
	"github.com/mooncake-go/mooncake/cmd/libmooncake/internal/storeface"
	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/app"
)

// hostMemory is what mck_host_alloc hands out.
var hostMemory = storeface.NewHostMemory(source)

// source is where the settings of this process come from.
func source() settings.Source {
	return settings.Source{Environ: environ(), Builtins: builtin.Plugins(), Log: os.Stderr}
}

type storeUse = handles.Use[*storeface.Store]

func useStore(s C.mck_handle) storeUse { return handles.Begin[*storeface.Store](&objects, int64(s)) }

// fill gives every result one code.
func fill(results []int64, code int64) {
	for i := range results {
		results[i] = code
	}
}

func newStore() int64 {
	fromC()
	return objects.Add(storeface.New(storeface.Options{Builtins: builtin.Plugins(), Environ: environ, Log: os.Stderr, Memory: hostMemory}))
}

//export mck_store_new
func mck_store_new() C.mck_handle { return C.mck_handle(newStore()) }

//export mck_store_free
func mck_store_free(s C.mck_handle) { free[*storeface.Store](int64(s)) }

//export mck_store_setup
func mck_store_setup(s C.mck_handle, data *C.mck_const_char, size C.uint64_t, positional C.int32_t, engine C.mck_handle) C.int32_t {
	u := useStore(s)
	defer u.Done()
	var given map[string]string
	if !u.OK || json.Unmarshal([]byte(text(data, size)), &given) != nil {
		return C.MCK_INVALID_PARAMS
	}
	var shared *app.Engine
	if engine != 0 {
		e, done, ok := engineOf(int64(engine))
		defer done()
		if !ok {
			return C.MCK_INVALID_PARAMS
		}
		shared = e
	}
	return C.int32_t(u.Value.Setup(given, positional != 0, shared))
}

//export mck_store_setup_dummy
func mck_store_setup_dummy(s C.mck_handle, _, localBuffer C.uint64_t, address *C.mck_const_char, size C.uint64_t) C.int32_t {
	u := useStore(s)
	defer u.Done()
	if !u.OK {
		return C.MCK_INVALID_PARAMS
	}
	return C.int32_t(u.Value.SetupDummy(uint64(localBuffer), text(address, size)))
}

//export mck_store_close
func mck_store_close(s C.mck_handle) C.int32_t {
	u := useStore(s)
	defer u.Done()
	if !u.OK {
		return C.MCK_INVALID_PARAMS
	}
	return C.int32_t(u.Value.Close())
}

//export mck_store_is_setup
func mck_store_is_setup(s C.mck_handle) C.int32_t {
	u := useStore(s)
	defer u.Done()
	if u.OK && u.Value.IsSetup() {
		return 1
	}
	return 0
}

//export mck_store_health
func mck_store_health(s C.mck_handle) C.int32_t {
	u := useStore(s)
	defer u.Done()
	if !u.OK {
		return 1
	}
	return C.int32_t(u.Value.Health())
}

//export mck_store_hostname
func mck_store_hostname(s C.mck_handle) C.mck_blob {
	u := useStore(s)
	defer u.Done()
	if !u.OK {
		return C.mck_blob{}
	}
	return blob(u.Value.Hostname())
}

//export mck_store_register
func mck_store_register(s C.mck_handle, ptr, size C.uint64_t) C.int32_t {
	u := useStore(s)
	defer u.Done()
	if !u.OK {
		return C.MCK_INVALID_PARAMS
	}
	return C.int32_t(u.Value.Register(uint64(ptr), uint64(size)))
}

//export mck_store_unregister
func mck_store_unregister(s C.mck_handle, ptr C.uint64_t) C.int32_t {
	u := useStore(s)
	defer u.Done()
	if !u.OK {
		return C.MCK_INVALID_PARAMS
	}
	return C.int32_t(u.Value.Unregister(uint64(ptr)))
}

//export mck_host_alloc
func mck_host_alloc(size C.uint64_t) C.uint64_t { return C.uint64_t(hostMemory.Alloc(uint64(size))) }

//export mck_host_free
func mck_host_free(ptr C.uint64_t) C.int32_t { return C.int32_t(hostMemory.Free(uint64(ptr))) }
