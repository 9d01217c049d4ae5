package storetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const workers = 16

// oneOfManyClaims checks that of many who claim one name at once exactly one gets it.
func oneOfManyClaims(t *testing.T, s Service) {
	store, prefix := s.open(t)
	for round := range 5 {
		key := fmt.Sprint(prefix, "rpc_meta/", round)
		var got atomic.Int32
		winner := make(chan string, workers)
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				err := store.Put(t.Context(), key, []byte(strconv.Itoa(w)))
				if err == nil {
					got.Add(1)
					winner <- strconv.Itoa(w)
				} else {
					assert.ErrorIs(t, err, metadata.ErrDuplicate)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, got.Load())
		found(t, store, key, <-winner)
	}
}

// concurrency checks that values do not mix.
func concurrency(t *testing.T, s Service) {
	store, prefix := s.open(t)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			key := fmt.Sprint(prefix, w)
			for i := range 20 {
				want := strings.Repeat(fmt.Sprint(w, "/", i, " "), 1+i*50)
				if !assert.NoError(t, store.Put(t.Context(), key, []byte(want))) {
					return
				}
				got, err := store.Get(t.Context(), key)
				if !assert.NoError(t, err) || !assert.Equal(t, want, string(got)) {
					return
				}
			}
			assert.NoError(t, store.Delete(t.Context(), key))
		})
	}
	wg.Wait()
}

func closed(t *testing.T, s Service) {
	store, end := s.Open(t)
	if end == nil {
		t.Skip("there is nothing to close")
	}
	require.NoError(t, store.Put(t.Context(), "mooncake/closed", []byte("v")))
	end()
	end()
	for name, call := range calls(store, "mooncake/closed") {
		assert.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(call(t.Context())), name)
	}
}

func nobodyThere(t *testing.T, s Service) {
	address := FreeAddress(t)
	store := s.at(t, address, time.Minute)
	for name, call := range calls(store, "mooncake/k") {
		err := call(t.Context())
		assert.Equal(t, errs.RPCFail, errs.CodeOf(err), "%s: %v", name, err)
		assert.NotErrorIs(t, err, metadata.ErrNotFound, name)
		assert.ErrorContains(t, err, address, name)
		assert.ErrorContains(t, err, "connection refused", name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls(store, "mooncake/k") {
		assert.Error(t, call(ctx), name)
	}
}

// silent checks that a service that takes connections and says nothing is not waited for
// without end.
func silent(t *testing.T, s Service) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	store := s.at(t, ln.Addr().String(), 200*time.Millisecond)
	var wg sync.WaitGroup
	for name, call := range calls(store, "mooncake/k") {
		wg.Go(func() {
			err := call(t.Context())
			assert.Equal(t, errs.RPCTimeout, errs.CodeOf(err), "%s: %v", name, err)
			assert.ErrorContains(t, err, ln.Addr().String(), name)
		})
	}
	wg.Wait()
}

func restart(t *testing.T, s Service) {
	if s.Stop == nil {
		t.Skip("this service cannot be restarted")
	}
	store, prefix := s.open(t)
	ctx, key := t.Context(), prefix+"k"
	require.NoError(t, store.Put(ctx, key, []byte("v")))
	s.Stop(t)
	for name, call := range calls(store, key) {
		err := call(ctx)
		assert.Contains(t, []errs.Code{errs.RPCFail, errs.RPCTimeout}, errs.CodeOf(err), "%s: %v", name, err)
		assert.NotErrorIs(t, err, metadata.ErrNotFound, name)
	}
	s.Start(t)
	require.Eventually(t, func() bool {
		_, err := store.Get(ctx, key)
		return err == nil || errors.Is(err, metadata.ErrNotFound)
	}, 30*time.Second, 5*time.Millisecond, "the store connects again")
	if s.Forgets {
		notFound(t, store, key)
	} else {
		found(t, store, key, "v")
	}
	require.NoError(t, store.Put(ctx, key, []byte("w")))
	found(t, store, key, "w")
}
