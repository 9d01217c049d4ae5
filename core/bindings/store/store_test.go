package store_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bindings/store"
)

func TestAStoreThatIsNotSetUp(t *testing.T) {
	s := store.New(options(t.Output()))
	out := make([]store.Code, 2)
	keys, mem := []string{"a", "b"}, pieces([]byte("x"), []byte("y"))
	for name, call := range map[string]func(){
		"put":    func() { s.Put(keys, mem, &once, 0, out) },
		"upsert": func() { s.Put(keys, mem, &once, store.Upsert, out) },
		"get":    func() { s.GetInto(keys, mem, out) },
		"exist":  func() { s.Exist(keys, out) },
		"size":   func() { s.Size(keys, out) },
		"remove": func() { s.Remove(keys, true, out) },
	} {
		clear(out)
		call()
		assert.Equal(t, []store.Code{-600, -600}, out, name)
	}
	for _, b := range s.GetBuffers(keys) {
		assert.EqualValues(t, -600, b.Status)
	}
	assert.EqualValues(t, -600, s.RemoveAll(true))
	assert.EqualValues(t, -600, s.RemoveByRegex("a", true))
	assert.EqualValues(t, -600, s.Register(4096, 4096))
	assert.EqualValues(t, 1, s.Health())
	assert.Empty(t, s.Hostname())
	assert.False(t, s.IsSetup())
	assert.Zero(t, s.Close())
	assert.Contains(t, s.LastError(), "set up")
}

func TestPutGetAndCloseAndAgain(t *testing.T) {
	master := startMaster(t, nil)
	s := store.New(options(t.Output()))
	for range 2 {
		require.Zero(t, s.Setup(t.Context(), dict(master, "global_segment_size=16MB"), false, nil), s.LastError())
		assert.True(t, s.IsSetup())
		assert.Zero(t, s.Health())
		assert.Regexp(t, `^127\.0\.0\.1:1[234]\d\d\d$`, s.Hostname())
		assert.EqualValues(t, -600, s.Setup(t.Context(), dict(master), false, nil), "it is set up")

		require.Zero(t, put(s, "k", []byte("hello")), s.LastError())
		assert.Zero(t, put(s, "k", []byte("other")), "what is there stays, which is a success")
		assert.Equal(t, "hello", string(get(s, "k")))
		var out [2]store.Code
		s.Exist([]string{"k", "none"}, out[:])
		assert.Equal(t, [2]store.Code{1, 0}, out)
		s.Size([]string{"k", "none"}, out[:])
		assert.Equal(t, [2]store.Code{5, -704}, out)

		large, small := make([]byte, 9), []byte("....")
		s.GetInto([]string{"k", "k"}, pieces(large, small), out[:])
		assert.Equal(t, [2]store.Code{5, -600}, out)
		assert.Equal(t, "hello", string(large[:5]))
		assert.Equal(t, "....", string(small), "memory that is too small is not touched")

		s.Remove([]string{"k", "none"}, false, out[:])
		assert.Equal(t, [2]store.Code{-706, -704}, out, "it was just read")
		s.Remove([]string{"k", "none"}, true, out[:])
		assert.Equal(t, [2]store.Code{0, -704}, out)
		require.Zero(t, s.Close(), s.LastError())
		assert.Nil(t, get(s, "k"))
	}
}
