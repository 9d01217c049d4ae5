package store_test

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bindings/settings"
	"github.com/mooncake-go/mooncake/core/bindings/store"
	"github.com/mooncake-go/mooncake/core/memory"
)

func TestEmptyBatches(t *testing.T) {
	s := open(t, startMaster(t, nil))
	s.Put(nil, store.Fragments{}, &once, 0, nil)
	s.GetInto(nil, store.Fragments{}, nil)
	s.GetInto(nil, store.Fragments{Rows: []uint64{0}}, nil)
	s.Exist(nil, nil)
	s.Size(nil, nil)
	s.Remove(nil, false, nil)
	s.GetRanges(nil, store.Ranges{KeyRows: []uint64{0}, FragRows: []uint64{0}}, nil)
	assert.Empty(t, s.GetBuffers(nil))
	assert.Empty(t, s.LastError())
}

func TestKeysOfAllKinds(t *testing.T) {
	s := open(t, startMaster(t, nil))
	for _, key := range []string{"a/b", "a b", "ключ", "page__k", strings.Repeat("k", 1024)} {
		require.Zero(t, put(s, key, []byte(key)), s.LastError())
		assert.Equal(t, key, string(get(s, key)))
	}
	assert.EqualValues(t, -600, put(s, "", []byte("x")))
	assert.EqualValues(t, -600, put(s, "empty", nil))
}

func TestTheSameKeyTwiceInABatch(t *testing.T) {
	s := open(t, startMaster(t, nil))
	out := make([]store.Code, 3)
	keys := []string{"a", "b", "a"}
	s.Put(keys, pieces([]byte("first"), []byte("b"), []byte("again")), &once, 0, out)
	assert.Equal(t, []store.Code{0, 0, 0}, out)
	to := [3][5]byte{}
	s.GetInto(keys, pieces(to[0][:], to[1][:], to[2][:]), out)
	assert.Equal(t, []store.Code{5, 1, 5}, out)
	assert.Equal(t, "first", string(to[2][:]))
}

func TestUpsertReplaces(t *testing.T) {
	s := open(t, startMaster(t, nil))
	require.Zero(t, put(s, "k", []byte("old")))
	var out [1]store.Code
	s.Put([]string{"k"}, pieces([]byte("newer")), &once, store.Upsert, out[:])
	require.Zero(t, out[0], s.LastError())
	assert.Equal(t, "newer", string(get(s, "k")))
}

func TestObjectsInSeveralPieces(t *testing.T) {
	s := open(t, startMaster(t, nil))
	keys, out := []string{"a", "b"}, make([]store.Code, 2)
	from := pieces([]byte("one"), []byte("-"), []byte("two"), []byte("three"))
	from.Rows = []uint64{0, 3, 4}
	node := once
	node.PreferNode = true
	s.Put(keys, from, &node, 0, out)
	assert.Equal(t, []store.Code{-600, -600}, out)
	s.Put(keys, from, &node, store.MayPreferNode, out)
	require.Equal(t, []store.Code{0, 0}, out, s.LastError())
	assert.Equal(t, "one-two", string(get(s, "a")))
	var x, y, z [4]byte
	to := pieces(x[:], y[:3], z[:])
	to.Rows = []uint64{0, 2, 3}
	s.GetInto(keys, to, out)
	assert.Equal(t, []store.Code{7, -600}, out)
	assert.Equal(t, "one-two", string(x[:])+string(y[:3]))
	assert.Equal(t, [4]byte{}, z, "too small, not touched")
}

func TestMemoryThatCannotBe(t *testing.T) {
	s := open(t, startMaster(t, nil))
	out := make([]store.Code, 3)
	keys := []string{"null", "good", "vast"}
	good := []byte("good")
	p := store.Fragments{Ptrs: []uint64{0, memory.AddrOf(good), memory.AddrOf(good)}, Sizes: []uint64{5, 4, 1 << 60}}
	s.Put(keys, p, &once, 0, out)
	assert.Equal(t, []store.Code{-600, 0, -600}, out)
	s.GetInto(keys, p, out)
	assert.Equal(t, []store.Code{-600, -600, -600}, out)
	p.Ptrs = p.Ptrs[:2]
	s.Put(keys, p, &once, 0, out)
	assert.Equal(t, []store.Code{-600, -600, -600}, out)
	assert.EqualValues(t, -600, s.Register(0, 4096))
	assert.EqualValues(t, -600, s.Register(memory.AddrOf(good), 0))
	assert.EqualValues(t, -600, s.Unregister(memory.AddrOf(good)))
}

func TestAFullPool(t *testing.T) {
	s := open(t, startMaster(t, nil), "global_segment_size=4MB")
	out := make([]store.Code, 2)
	large := make([]byte, 3<<20)
	s.Put([]string{"fits", "full"}, pieces(large, large), &once, 0, out)
	assert.ElementsMatch(t, []store.Code{0, -200}, out)
}

func TestRegisteringAgainAfterTheEnd(t *testing.T) {
	s := open(t, startMaster(t, nil))
	b, err := memory.Allocate(64<<20, memory.Options{})
	require.NoError(t, err)
	defer b.Close()
	addr := memory.AddrOf(b.Bytes())
	for range 2 {
		require.Zero(t, s.Register(addr, 64<<20), s.LastError())
		assert.NotZero(t, s.Register(addr, 64<<20), "it is registered")
		assert.NotZero(t, s.Unregister(addr+1))
		require.Zero(t, s.Unregister(addr), s.LastError())
	}
}

func TestNoMasterAndThenOne(t *testing.T) {
	const closed = "127.0.0.1:1" // A port that was free a moment ago may be in use by another process now.
	var log bytes.Buffer
	s := store.New(options(&log))
	for range 2 {
		assert.EqualValues(t, -1, s.Setup(t.Context(), dict(closed, "max_wait_time=0"), false, nil))
		assert.True(t, s.IsSetup(), "it goes on trying")
		assert.Contains(t, s.LastError(), "check that the master")
		assert.EqualValues(t, 2, s.Health())
	}
	assert.Contains(t, log.String(), "could not be set up")
	require.Zero(t, s.Setup(t.Context(), dict(startMaster(t, nil)), false, nil), s.LastError())
	require.Zero(t, put(s, "k", []byte("v")))
	require.Zero(t, s.Close())
}

// TestRDMAWithoutADevice goes on with TCP, and a port for health that is taken with none.
func TestRDMAWithoutADevice(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	var log bytes.Buffer
	s := store.New(options(&log))
	d := dict(startMaster(t, nil), "protocol=rdma", "enable_client_http_server=True", fmt.Sprint("client_http_port=", ln.Addr().(*net.TCPAddr).Port))
	require.Zero(t, s.Setup(t.Context(), d, false, nil), s.LastError())
	require.Zero(t, put(s, "k", []byte("v")), s.LastError())
	require.Zero(t, s.Close())
	assert.Contains(t, log.String(), "health and metrics are not served")
}

func TestStoresThatShareAnEngine(t *testing.T) {
	master := startMaster(t, nil)
	loaded, err := settings.Load(settings.Source{Builtins: builtin.Plugins(), Log: t.Output()}, map[string]string{"local_hostname": "localhost"})
	require.NoError(t, err)
	e, err := app.OpenEngine(t.Context(), loaded.Config, builtin.Plugins(), app.EngineOptions{Log: quiet})
	require.NoError(t, err)
	a, b := store.New(options(t.Output())), store.New(options(t.Output()))
	for _, s := range []*store.Store{a, b} {
		require.Zero(t, s.Setup(t.Context(), dict(master), false, e), s.LastError())
		assert.Equal(t, e.Name(), s.Hostname())
	}
	require.NoError(t, e.Close(t.Context()), "the stores hold it")
	require.Zero(t, put(a, "k", []byte("v")))
	require.Zero(t, a.Close(), a.LastError())
	require.Zero(t, put(b, "l", []byte("w")), b.LastError())
	assert.Equal(t, "w", string(get(b, "l")))
	require.Zero(t, b.Close(), b.LastError())
}

// TestManyThreads use one store while another one is opened and closed, and close it under
// the calls in the end.
func TestManyThreads(t *testing.T) {
	master := startMaster(t, nil)
	s := open(t, master)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			value := bytes.Repeat([]byte{byte(g + 1)}, 1<<12)
			for i := 0; s.IsSetup() && i < 50; i++ {
				key := fmt.Sprint(g, "-", i)
				if code := put(s, key, value); code == 0 {
					if got := get(s, key); got != nil {
						assert.Equal(t, value, got)
					}
				}
				if g == 0 && i == 40 {
					assert.Zero(t, s.Close(), s.LastError())
				}
			}
		})
	}
	for range 3 {
		other := store.New(options(t.Output()))
		assert.Zero(t, other.Setup(t.Context(), dict(master), false, nil), other.LastError())
		assert.Zero(t, other.Close())
	}
	all.Wait()
	assert.Nil(t, get(s, "0-0"))
}

func TestABufferStaysWhenTheStoreGoes(t *testing.T) {
	s := open(t, startMaster(t, nil))
	require.Zero(t, put(s, "k", []byte("kept")))
	b := s.GetBuffers([]string{"k"})[0]
	require.Zero(t, b.Status)
	require.Zero(t, s.Close())
	assert.Equal(t, "kept", string(b.Bytes()))
	b.Release()
}
