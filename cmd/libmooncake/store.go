package main

/*
#include "cgo.h"

static inline int32_t is_interrupted(mck_interrupted f, void *arg) { return f != NULL ? f(arg) : 0; }
*/
import "C"

import (
	"context"
	"encoding/json"
	"os"
	"time"
	"unsafe"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bindings/handles"
	"github.com/mooncake-go/mooncake/core/bindings/settings"
	"github.com/mooncake-go/mooncake/core/bindings/store"
)

// hostMemory is the memory that mck_host_alloc returns.
var hostMemory = store.NewHostMemory(source)

// source returns the source of this process's settings.
func source() settings.Source {
	return settings.Source{Environ: environ(), Builtins: builtin.Plugins(), Log: os.Stderr}
}

// withStore calls do with the store that h stands for, and returns missing if there is none.
func withStore[H ~int64 | ~uint64, R any](h H, missing R, do func(*store.Store) R) R {
	return with(int64(h), missing, do)
}

// fillUnless makes every result MCK_INVALID_PARAMS unless the call found its store.
func fillUnless(found bool, results []int64) {
	if found {
		return
	}
	for i := range results {
		results[i] = C.MCK_INVALID_PARAMS
	}
}

func newStore() int64 {
	fromC()
	return objects.Add(store.New(store.Options{Builtins: builtin.Plugins(), Environ: environ, Log: os.Stderr, Memory: hostMemory}))
}

//export mck_store_new
func mck_store_new() C.mck_handle { return C.mck_handle(newStore()) }

//export mck_store_free
func mck_store_free(s C.mck_handle) { free[*store.Store](int64(s)) }

//export mck_store_setup
func mck_store_setup(s C.mck_handle, data *C.mck_const_char, size C.uint64_t, positional C.int32_t, engine C.mck_handle,
	interrupted C.mck_interrupted, arg unsafe.Pointer) C.int32_t {
	return withStore(s, C.MCK_INVALID_PARAMS, func(t *store.Store) C.int32_t {
		var given map[string]string
		if json.Unmarshal([]byte(text(data, size)), &given) != nil {
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
		return C.int32_t(setupUntil(t, given, positional != 0, shared, func() bool { return C.is_interrupted(interrupted, arg) != 0 }))
	})
}

// interruptInterval is the interval at which a setup checks for an interrupt.
const interruptInterval = 50 * time.Millisecond

// setupUntil sets a store up, unless interrupted returns true before it is done. interrupted runs
// on the goroutine that C called, and so on C's thread.
func setupUntil(s *store.Store, given map[string]string, positional bool, engine *app.Engine, interrupted func() bool) int64 {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done, s := make(chan int64, 1), s.OfThisThread()
	go func() { done <- s.Setup(ctx, given, positional, engine) }()
	ticker := time.NewTicker(interruptInterval)
	defer ticker.Stop()
	for {
		select {
		case code := <-done:
			return code
		case <-ticker.C:
		}
		if !interrupted() {
			continue
		}
		cancel()
		code := <-done
		if code == 0 { // The setup was faster. The caller takes the store as not set up.
			s.Close()
		}
		return code
	}
}

//export mck_store_setup_dummy
func mck_store_setup_dummy(s C.mck_handle, _, localBuffer C.uint64_t, address *C.mck_const_char, size C.uint64_t) C.int32_t {
	return withStore(s, C.MCK_INVALID_PARAMS, func(t *store.Store) C.int32_t {
		return C.int32_t(t.SetupDummy(uint64(localBuffer), text(address, size)))
	})
}

//export mck_store_close
func mck_store_close(s C.mck_handle) C.int32_t {
	return withStore(s, C.MCK_INVALID_PARAMS, func(t *store.Store) C.int32_t { return C.int32_t(t.Close()) })
}

//export mck_store_is_setup
func mck_store_is_setup(s C.mck_handle) C.int32_t {
	u := handles.Begin[*store.Store](&objects, int64(s)) // Without Begin, since a failed setup stays the last error.
	defer u.Done()
	if u.OK && u.Value.IsSetup() {
		return 1
	}
	return 0
}

//export mck_store_health
func mck_store_health(s C.mck_handle) C.int32_t {
	return withStore(s, 1, func(t *store.Store) C.int32_t { return C.int32_t(t.Health()) })
}

//export mck_store_hostname
func mck_store_hostname(s C.mck_handle) C.mck_blob {
	return withStore(s, C.mck_blob{}, func(t *store.Store) C.mck_blob { return blob(t.Hostname()) })
}

//export mck_store_register
func mck_store_register(s C.mck_handle, ptr, size C.uint64_t) C.int32_t {
	return withStore(s, C.MCK_INVALID_PARAMS, func(t *store.Store) C.int32_t { return C.int32_t(t.Register(uint64(ptr), uint64(size))) })
}

//export mck_store_unregister
func mck_store_unregister(s C.mck_handle, ptr C.uint64_t) C.int32_t {
	return withStore(s, C.MCK_INVALID_PARAMS, func(t *store.Store) C.int32_t { return C.int32_t(t.Unregister(uint64(ptr))) })
}

//export mck_host_alloc
func mck_host_alloc(size C.uint64_t) C.uint64_t { return C.uint64_t(hostMemory.Alloc(uint64(size))) }

//export mck_host_free
func mck_host_free(ptr C.uint64_t) C.int32_t { return C.int32_t(hostMemory.Free(uint64(ptr))) }
