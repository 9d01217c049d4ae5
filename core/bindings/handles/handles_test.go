package handles_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/bindings/handles"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestANumberStandsForOneThingOnly(t *testing.T) {
	var table handles.Table
	h := table.Add("store")
	assert.Positive(t, h)

	u := handles.Begin[string](&table, h)
	assert.True(t, u.OK)
	assert.Equal(t, "store", u.Value)
	u.Done()
	for _, wrong := range []int64{0, -1, h + 1} {
		u := handles.Begin[string](&table, wrong)
		assert.False(t, u.OK)
		u.Done()
	}
	assert.False(t, handles.Begin[int](&table, h).OK, "it is no int")
	_, _, ok := handles.Take[int](&table, h, 0)
	assert.False(t, ok, "nor is it taken as one")

	v, idle, ok := handles.Take[string](&table, h, time.Second)
	assert.Equal(t, "store", v)
	assert.True(t, idle && ok)
	_, _, ok = handles.Take[string](&table, h, time.Second)
	assert.False(t, ok)
	assert.NotEqual(t, h, table.Add("another"))
}

func TestTakeWaitsForCallsAndNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table handles.Table
		h := table.Add(1)
		u := handles.Begin[int](&table, h)
		go func() { time.Sleep(time.Second); u.Done() }()
		began := time.Now()
		_, idle, ok := handles.Take[int](&table, h, time.Minute)
		assert.True(t, idle && ok)
		assert.Equal(t, time.Second, time.Since(began))

		h = table.Add(2)
		stuck := handles.Begin[int](&table, h)
		_, idle, ok = handles.Take[int](&table, h, time.Minute)
		assert.True(t, ok)
		assert.False(t, idle)
		assert.False(t, handles.Begin[int](&table, h).OK)
		stuck.Done() // Late, and harmless.
	})
}

func TestManyThreads(t *testing.T) {
	var table handles.Table
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 200 {
				h := table.Add(i)
				u := handles.Begin[int](&table, h)
				assert.Equal(t, i, u.Value)
				u.Done()
				_, idle, ok := handles.Take[int](&table, h, time.Second)
				assert.True(t, idle && ok)
			}
		})
	}
	all.Wait()
	assert.Zero(t, table.Len())
}

// TestModel: whatever is added and taken, numbers are new and find what was added.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table handles.Table
		model, seen := map[int64]int{}, map[int64]bool{}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "add") {
				h := table.Add(i)
				if seen[h] {
					t.Fatalf("%d was used before", h)
				}
				seen[h], model[h] = true, i
				continue
			}
			h := rapid.Int64Range(-1, 60).Draw(t, "handle")
			want, there := model[h]
			got, _, ok := handles.Take[int](&table, h, 0)
			if ok != there || got != want {
				t.Fatalf("taking %d: %d %v, want %d %v", h, got, ok, want, there)
			}
			delete(model, h)
		}
		if table.Len() != len(model) || len(table.Handles()) != len(model) {
			t.Fatalf("%d are left, want %d", table.Len(), len(model))
		}
	})
}
