package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/metadata"
)

func values(t *testing.T, s Service) {
	store, prefix := s.open(t)
	other, _ := s.open(t)
	ctx, key := t.Context(), prefix+"k"
	notFound(t, store, key)
	require.ErrorIs(t, store.Delete(ctx, key), metadata.ErrNotFound)
	for _, v := range []string{"", "\n", "a", "a\n", "a\n\n", "b", "b", "null", "0"} {
		value := []byte(v)
		require.NoError(t, store.Put(ctx, key, value))
		for i := range value {
			value[i] = 'x' // The store keeps no reference.
		}
		found(t, store, key, v)
		found(t, other, key, v)
	}
	notFound(t, store, key+"k")
	require.NoError(t, other.Delete(ctx, key))
	notFound(t, store, key)
	require.ErrorIs(t, store.Delete(ctx, key), metadata.ErrNotFound)
}

func everyByte(t *testing.T, s Service) {
	store, prefix := s.open(t)
	for name, size := range map[string]int{"256 bytes": 256, "64 KiB": 64 << 10, "1.25 MiB": 5 << 18} {
		value := make([]byte, size)
		rng := rand.New(rand.NewPCG(1, uint64(size)))
		for i := range value {
			value[i] = byte(rng.Uint32())
			if i < 256 {
				value[i] = byte(i)
			}
		}
		require.NoError(t, store.Put(t.Context(), prefix+"k", value), name)
		found(t, store, prefix+"k", string(value))
	}
}

func keys(t *testing.T, s Service) {
	store, prefix := s.open(t)
	list := []string{"a", "A", "a/b", "a%2Fb", "a%", "a+b", "127.0.0.1:12001", "[fe80::1%eth0]:15000", "a?b&key=c#d", "ü", "_-.~", `"\`, "*"}
	for _, k := range list {
		require.NoError(t, store.Put(t.Context(), prefix+k, []byte(k)), k)
	}
	for _, k := range list {
		found(t, store, prefix+k, k)
	}
	require.NoError(t, store.Delete(t.Context(), prefix+"*"))
	found(t, store, prefix+"a", "a")
	require.Error(t, store.Put(t.Context(), "", []byte("v")))
}

func duplicates(t *testing.T, s Service) {
	store, prefix := s.open(t)
	ctx, key := t.Context(), prefix+"rpc_meta/n"
	require.NoError(t, store.Put(ctx, key, []byte(`{"rpc_port":1}`)))
	require.NoError(t, store.Put(ctx, key, []byte(`{"rpc_port":1}`)), "the same again")
	require.ErrorIs(t, store.Put(ctx, key, []byte(`{"rpc_port":2}`)), metadata.ErrDuplicate)
	require.ErrorIs(t, store.Put(ctx, key, nil), metadata.ErrDuplicate)
	found(t, store, key, `{"rpc_port":1}`)
	require.NoError(t, store.Delete(ctx, key))
	require.NoError(t, store.Put(ctx, key, []byte(`{"rpc_port":2}`)))
	found(t, store, key, `{"rpc_port":2}`)
}

// descriptors checks that what nodes publish arrives as it was.
func descriptors(t *testing.T, s Service) {
	store, prefix := s.open(t)
	want := &metadata.Descriptor{Name: "n", Protocol: "rdma", TCPProtoVersion: 1, Devices: []metadata.Device{{Name: "d", GID: "::"}},
		Buffers: []metadata.Buffer{{Name: "cpu:0", Addr: 1<<64 - 2, Length: 1, RKeys: []uint32{1<<32 - 1}, LKeys: []uint32{0}}}}
	raw, err := metadata.EncodeDescriptor(want)
	require.NoError(t, err)
	require.NoError(t, store.Put(t.Context(), prefix+"n", raw))
	raw, err = store.Get(t.Context(), prefix+"n")
	require.NoError(t, err)
	got, err := metadata.DecodeDescriptor(raw)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// isAMap runs random calls against a plain map.
func isAMap(t *testing.T, s Service) {
	store, prefix := s.open(t)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		model := map[string]string{}
		for range 8 {
			key := fmt.Sprint(prefix, round, rapid.SampledFrom([]string{"/a", "/b", "/rpc_meta/c"}).Draw(rt, "key"))
			old, exists := model[key]
			switch rapid.SampledFrom([]string{"put", "put", "get", "delete"}).Draw(rt, "call") {
			case "put":
				v := rapid.SampledFrom([]string{"", "1", "2\n"}).Draw(rt, "value")
				err := store.Put(t.Context(), key, []byte(v))
				if exists && metadata.IsRPCMeta(key) && old != v {
					require.ErrorIs(rt, err, metadata.ErrDuplicate)
					break
				}
				require.NoError(rt, err)
				model[key] = v
			case "get":
				v, err := store.Get(t.Context(), key)
				require.Equal(rt, !exists, errors.Is(err, metadata.ErrNotFound))
				require.Equal(rt, old, string(v))
			case "delete":
				require.Equal(rt, !exists, errors.Is(store.Delete(t.Context(), key), metadata.ErrNotFound))
				delete(model, key)
			}
		}
	})
}
