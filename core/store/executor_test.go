package store_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// finished waits for a task to end.
func finished(t *testing.T, c *member, id model.TaskID) model.Task {
	t.Helper()
	for range 100 {
		task, err := c.QueryTask(t.Context(), id)
		require.NoError(t, err)
		if task.Status == model.TaskSuccess || task.Status == model.TaskFailed {
			return task
		}
		time.Sleep(time.Second)
	}
	t.Fatal("the task does not end")
	return model.Task{}
}

// TestCopyAndMove: the node that holds an object copies it to others, and what was moved is
// read from its new place when the old node is gone.
func TestCopyAndMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := newLedgerPool(t)
		a := p.member("a:1", memberOptions{segments: []uint64{64 << 20}})
		c := p.member("c:1", memberOptions{})
		l.stripe = 3 << 20
		sizes := map[string]int{"small": 1000, "large": 35<<20 + 5}
		for k, n := range sizes {
			require.NoError(t, c.Put(t.Context(), k, content(k, n), one))
		}
		p.member("b:1", memberOptions{segments: []uint64{64 << 20}})
		l.stripe = 0
		l.full = 3
		id, err := c.CreateCopyTask(t.Context(), "small", []string{"b:1"})
		require.NoError(t, err)
		require.Equal(t, model.TaskSuccess, finished(t, c, id).Status, "it found space with the fourth try")
		id, err = c.CreateMoveTask(t.Context(), "large", "a:1", "b:1")
		require.NoError(t, err)
		require.Equal(t, model.TaskSuccess, finished(t, c, id).Status)
		require.Equal(t, 2, a.count(t, "mooncake_node_tasks_done_total"))
		a.wire.Kill()
		for k, n := range sizes {
			got, err := c.Get(t.Context(), k)
			require.NoError(t, err)
			require.Equal(t, content(k, n), got)
		}
	})
}

// TestDamageIsNotCopied: a source with wrong bytes stays the only one.
func TestDamageIsNotCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := newLedgerPool(t)
		a := p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
		c := p.member("c:1", memberOptions{})
		value := content("k", 10_000)
		require.NoError(t, c.Put(t.Context(), "k", value, one))
		p.member("b:1", memberOptions{segments: []uint64{1 << 20}})
		require.Equal(t, 1, damage(a.node, value))
		id, err := c.CreateCopyTask(t.Context(), "k", []string{"b:1"})
		require.NoError(t, err)
		task := finished(t, c, id)
		require.Equal(t, model.TaskFailed, task.Status)
		require.Contains(t, task.Message, "CHECKSUM_MISMATCH")
		require.Len(t, c.Query(t.Context(), []string{"k"})[0].Value.Replicas, 1)
		require.Empty(t, l.copies, "revoked")
		require.Equal(t, 1, a.count(t, "mooncake_node_task_checksum_mismatches_total"))
	})
}

func TestFailedCopies(t *testing.T) {
	for name, c := range map[string]struct {
		fault memtransport.Fault
		full  int
		text  string
		left  int
	}{
		"no space":                 {full: 100, text: "NO_AVAILABLE_HANDLE"},
		"the target refuses":       {fault: memtransport.Fault{Err: errs.New(errs.InvalidWrite, "test", "refused")}, text: "refused"},
		"the target may yet write": {fault: memtransport.Fault{Err: errCut, Quarantine: true}, text: "cut", left: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, l := newLedgerPool(t)
				a := p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
				require.NoError(t, a.Put(t.Context(), "k", content("k", 100), one))
				p.member("b:1", memberOptions{segments: []uint64{1 << 20}})
				l.full = c.full
				a.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
					if e.Kind == transport.Write {
						return c.fault
					}
					return memtransport.Fault{}
				})
				id, err := a.CreateCopyTask(t.Context(), "k", []string{"b:1"})
				require.NoError(t, err)
				task := finished(t, a, id)
				require.Equal(t, model.TaskFailed, task.Status)
				require.Contains(t, task.Message, c.text)
				require.Len(t, l.copies, c.left)
				if c.full > 0 {
					require.Equal(t, c.full-6, l.full, "one try and five more")
				}
			})
		})
	}
}

// TestOneCopyOfAnObjectAtATime: what the master gave up and the node is still at ends no copy
// that was begun since.
func TestOneCopyOfAnObjectAtATime(t *testing.T) {
	for name, fault := range map[string]memtransport.Fault{
		"ends":     {Delay: 4 * time.Second},
		"gives up": {Delay: 4 * time.Second, Err: errs.New(errs.InvalidWrite, "test", "refused")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, l := newLedgerPool(t)
				a := p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
				p.member("b:1", memberOptions{segments: []uint64{1 << 20}})
				require.NoError(t, a.Put(t.Context(), "k", content("old", 1000), model.ReplicateConfig{ReplicaNum: 1, PreferredSegments: []string{"a:1"}}))
				var writes atomic.Int32
				a.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
					switch {
					case e.Kind != transport.Write:
						return memtransport.Fault{}
					case writes.Add(1) == 1:
						return fault
					}
					return memtransport.Fault{Delay: 4 * time.Second}
				})
				first, err := a.CreateCopyTask(t.Context(), "k", []string{"b:1"})
				require.NoError(t, err)
				for writes.Load() == 0 {
					time.Sleep(100 * time.Millisecond)
				}
				l.forget("k")
				require.NoError(t, a.Put(t.Context(), "k", content("new", 1000), model.ReplicateConfig{ReplicaNum: 1, PreferredSegments: []string{"a:1"}}))
				second, err := a.CreateCopyTask(t.Context(), "k", []string{"b:1"})
				require.NoError(t, err)
				task := finished(t, a, second)
				require.Equal(t, model.TaskFailed, task.Status)
				require.Contains(t, task.Message, "OBJECT_HAS_REPLICATION_TASK")
				require.Equal(t, model.TaskFailed, finished(t, a, first).Status)
				require.Equal(t, int32(1), writes.Load())
				require.Len(t, a.Query(t.Context(), []string{"k"})[0].Value.Replicas, 1)

				third, err := a.CreateCopyTask(t.Context(), "k", []string{"b:1"})
				require.NoError(t, err)
				require.Equal(t, model.TaskSuccess, finished(t, a, third).Status, "the node is free again")
			})
		})
	}
}

// TestTasksAreBounded: four at a time, and a node that stops gives up the tasks in progress.
func TestTasksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := newLedgerPool(t)
		a := p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
		var ids []model.TaskID
		for i := range 10 {
			require.NoError(t, a.Put(t.Context(), fmt.Sprint("k", i), content("k", 100), one))
		}
		p.member("b:1", memberOptions{segments: []uint64{1 << 20}})
		var begun atomic.Int32
		a.wire.SetHook(func(memtransport.Event) memtransport.Fault {
			begun.Add(1)
			return memtransport.Fault{Delay: 2 * time.Second}
		})
		for i := range 10 {
			id, err := a.CreateCopyTask(t.Context(), fmt.Sprint("k", i), []string{"b:1"})
			require.NoError(t, err)
			ids = append(ids, id)
		}
		time.Sleep(2500 * time.Millisecond)
		require.Equal(t, int32(4), begun.Load())
		a.stop()
		failed := 0
		for _, id := range ids {
			task, err := l.QueryTask(t.Context(), id)
			require.NoError(t, err)
			require.NotEqual(t, model.TaskProcessing, task.Status)
			if task.Status == model.TaskFailed {
				failed++
			}
		}
		require.Empty(t, l.copies)
		require.LessOrEqual(t, failed, 4)
	})
}
