package store_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bindings/store"
)

// answer is every field that an answer can have.
type answer struct {
	Code       int64
	ID         [2]uint64
	SegmentIDs []string `json:"segment_ids"`
	Allocated  uint64   `json:"allocated_size"`
	Address    uint64
	Count      *int
	Task       struct {
		ID           [2]uint64
		Type, Status int
		Message      string
		Created      int64 `json:"created_at_ms_epoch"`
	}
}

func control(t testing.TB, s *store.Store, method string, args map[string]any) answer {
	t.Helper()
	text, err := json.Marshal(args)
	require.NoError(t, err)
	var a answer
	require.NoError(t, json.Unmarshal([]byte(s.Control(method, string(text))), &a))
	return a
}

func TestWhereObjectsLie(t *testing.T) {
	master := startMaster(t, nil)
	s, other := open(t, master), open(t, master)
	for key, at := range map[string]string{"k": s.Hostname(), "l": other.Hostname()} {
		how := once
		how.PreferredSegments = []string{at}
		var out [1]store.Code
		s.Put([]string{key}, pieces([]byte("hello")), &how, 0, out[:])
		require.Zero(t, out[0], s.LastError())
	}
	var where store.Located
	for range 2 { // The second time in the memory of the first.
		counts := []uint64{9, 9, 9, 9}
		s.Replicas([]string{"k", "none", "l", "k"}, &where, counts)
		assert.Equal(t, []uint64{1, 0, 1, 1}, counts)
		assert.Contains(t, s.LastError(), "none")
		require.Len(t, where.Rows, 3*store.PerReplica)
		for i, place := range []uint64{0, 1, 0} {
			r := where.Rows[store.PerReplica*i:]
			assert.Zero(t, r[4], "it is in memory")
			assert.EqualValues(t, 3, r[0])
			assert.EqualValues(t, 5, r[1])
			assert.NotZero(t, r[2])
			assert.Equal(t, place, r[3])
		}
		assert.Equal(t, []string{s.Hostname(), other.Hostname()}, where.Endpoints)
	}
	counts := []uint64{9}
	store.New(store.Options{}).Replicas([]string{"k"}, &where, counts)
	assert.Equal(t, []uint64{0}, counts, "it is not set up")
	assert.Empty(t, where.Rows)
	results := make([]store.Code, 1)
	s.ClearReplicas([]string{"k"}, "", results)
	assert.Zero(t, results[0], "it has a lease")
	assert.Zero(t, *control(t, s, "get_offload_rpc_read_count", nil).Count)
}

func TestTasks(t *testing.T) {
	master := startMaster(t, nil)
	s, other := open(t, master), open(t, master)
	how := once
	how.PreferredSegments = []string{s.Hostname()}
	var out [1]store.Code
	s.Put([]string{"k"}, pieces([]byte("v")), &how, 0, out[:])
	require.Zero(t, out[0])
	made := control(t, s, "create_copy_task", map[string]any{"key": "k", "targets": []string{other.Hostname()}})
	require.Zero(t, made.Code, s.LastError())
	require.NotZero(t, made.ID)
	a := control(t, s, "query_task", map[string]any{"id": made.ID})
	require.Zero(t, a.Code, s.LastError())
	assert.Equal(t, made.ID, a.Task.ID, "64 bits are exact")
	assert.Zero(t, a.Task.Type)
	assert.Positive(t, a.Task.Created)
	assert.EqualValues(t, -1400, control(t, s, "query_task", map[string]any{"id": [2]uint64{1<<64 - 1, 1}}).Code)
	assert.EqualValues(t, -600, control(t, s, "query_task", nil).Code)
	assert.Negative(t, control(t, s, "create_move_task", map[string]any{"key": "none", "source": "a", "target": "b"}).Code)
}

func TestSegmentsAtRunTime(t *testing.T) {
	s := open(t, startMaster(t, nil), "global_segment_size=0")
	assert.EqualValues(t, -200, put(s, "k", []byte("v")), "there is no memory yet")
	file := filepath.Join(t.TempDir(), "segment")
	require.NoError(t, os.WriteFile(file, make([]byte, 12<<20), 0o600))
	mount := func(path string, size, offset uint64) answer {
		return control(t, s, "mount_segment", map[string]any{"path": path, "size": size, "offset": offset, "protocol": "tcp", "location": ""})
	}
	for _, bad := range []answer{
		mount(file, 0, 0), mount(file, 8<<20, 8<<20), mount(file, 4096, 1), mount(file+"x", 4096, 0), mount(filepath.Dir(file), 4096, 0), mount(file, 1<<62, 4096),
	} {
		assert.Negative(t, bad.Code)
		assert.Empty(t, bad.SegmentIDs)
	}
	m := mount(file, 8<<20, 4<<20)
	require.Zero(t, m.Code, s.LastError())
	require.Len(t, m.SegmentIDs, 1)
	require.Zero(t, put(s, "k", []byte("in the file")), s.LastError())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(text[4<<20:]), "in the file")

	fresh := control(t, s, "allocate_and_mount_segment", map[string]any{"size": 8 << 20, "protocol": "tcp", "location": ""})
	require.Zero(t, fresh.Code, s.LastError())
	assert.EqualValues(t, 8<<20, fresh.Allocated)
	unmount := func(method string, ids []string, grace uint64) int64 {
		return control(t, s, method, map[string]any{"segment_ids": ids, "grace_period_seconds": grace}).Code
	}
	assert.EqualValues(t, -600, unmount("unmount_segment", []string{"no id"}, 0))
	assert.EqualValues(t, -101, unmount("unmount_segment", []string{"1-2"}, 0))
	assert.EqualValues(t, -600, unmount("unmount_segment", m.SegmentIDs, 1<<62))
	assert.Zero(t, unmount("unmount_segment", m.SegmentIDs, 0), s.LastError())
	assert.Nil(t, get(s, "k"))
	assert.Zero(t, unmount("unmount_and_free_segment", fresh.SegmentIDs, 3600), "given up when the store closes")
	assert.EqualValues(t, 0, control(t, s, "unmount_local_disk_segment", nil).Code)
}

func TestMemoryOfTheStore(t *testing.T) {
	s := open(t, startMaster(t, nil))
	a := control(t, s, "alloc_from_mem_pool", map[string]any{"size": 1 << 20})
	require.Zero(t, a.Code, s.LastError())
	mem, ok := store.At(a.Address, 1<<20)
	require.True(t, ok)
	copy(mem, "pool")
	require.Zero(t, put(s, "k", mem[:4]))
	assert.NotZero(t, s.Register(a.Address, 4096), "it is registered, and not in parts")
	assert.Zero(t, s.Register(a.Address, 1<<20), "it came registered")
	require.Zero(t, s.Unregister(a.Address), s.LastError())
	assert.NotZero(t, s.Unregister(a.Address), "once")
	assert.Zero(t, s.Register(a.Address, 1<<20), s.LastError())
	assert.Negative(t, control(t, s, "alloc_from_mem_pool", map[string]any{"size": 0}).Code)
}

func TestControlThatCannotBe(t *testing.T) {
	s := store.New(options(t.Output()))
	for method, want := range map[string]int64{
		"create_copy_task": -600, "query_task": -600, "alloc_from_mem_pool": -600, "mount_segment": -1, "unmount_segment": -1, "what": -1012,
	} {
		assert.Equal(t, fmt.Sprintf(`{"code":%d}`, want), s.Control(method, `{}`), method)
	}
	o := open(t, startMaster(t, nil))
	for _, args := range []string{``, `[]`, `{"targets":1}`, `{"targets":["a"`, `null x`} {
		assert.Equal(t, `{"code":-600}`, o.Control("create_copy_task", args), args)
	}
	assert.Equal(t, `{"code":-600}`, o.Control("alloc_from_mem_pool", `{"size":-1}`))
	assert.Equal(t, `{"code":-600}`, o.Control("alloc_from_mem_pool", `{"size":18446744073709551616}`))
}

func FuzzControl(f *testing.F) {
	for _, method := range []string{"query_task", "mount_segment", "unmount_segment", "create_copy_task", "create_move_task"} {
		f.Add(method, `{"keys":["a"],"id":[1,2],"segment_ids":["1-2"],"path":"/dev/null","size":1}`)
	}
	s := store.New(options(os.Stderr))
	f.Fuzz(func(t *testing.T, method, args string) {
		var a answer
		if err := json.Unmarshal([]byte(s.Control(method, args)), &a); err != nil || a.Code >= 0 {
			t.Fatalf("%d %v", a.Code, err)
		}
	})
}
