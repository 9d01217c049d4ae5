package drivers

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/model"
)

func newStoreWorker(t *testing.T) (*storeWorker, *fakeStore) {
	t.Helper()
	mem, err := newArea()
	require.NoError(t, err)
	f := &fakeStore{objects: map[model.Key][]byte{}}
	return &storeWorker{client: f, area: mem}, f
}

// small is a set of few objects, so that a test takes no time: 64 MiB in 4 objects.
const smallSize = 16 << 20

func TestPutsLeaveNothing(t *testing.T) {
	w, f := newStoreWorker(t)
	a, err := w.do(t.Context(), Job{Do: Put, Size: 1000, Count: 3, Threads: 2, Seconds: 1000, Limit: 1000 * 3 * 2 * 5})
	require.NoError(t, err)
	require.Equal(t, 10, a.Phases[Put].Calls, "the limit is five calls of each thread")
	require.Positive(t, a.Phases[Put].Seconds)
	require.Equal(t, 30, f.puts)
	require.Empty(t, f.objects)

	_, err = w.do(t.Context(), Job{Do: Put, Size: 1000, Count: 1, Threads: 1, Seconds: 1000, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, 31, f.puts, "at least one, of a new key")
}

func TestGetsReadASetAndLookAtTheBytes(t *testing.T) {
	w, f := newStoreWorker(t)
	job := Job{Do: Get, Size: smallSize, Count: 1, Threads: 2, Seconds: 1e-9}
	_, err := w.do(t.Context(), job)
	require.ErrorContains(t, err, "no set/")

	_, err = w.do(t.Context(), Job{Do: Prepare, Warm: 2 * AreaBytes, Sets: Sets(smallSize)})
	require.NoError(t, err)
	require.Len(t, f.objects, setBytes(smallSize)/smallSize, "what warmed the pool is gone")
	a, err := w.do(t.Context(), job)
	require.NoError(t, err)
	require.Equal(t, 2, a.Phases[Get].Calls, "one of each thread, however short the time")

	f.damaged = true
	_, err = w.do(t.Context(), job)
	require.ErrorContains(t, err, "other bytes than were put")
}

func TestTooMuchForTheMemoryOfAThread(t *testing.T) {
	w, _ := newStoreWorker(t)
	for _, j := range []Job{
		{Do: Put, Size: AreaBytes + 1, Count: 1, Threads: 1}, {Do: Get, Size: 1 << 20, Count: 17, Threads: 1},
		{Do: Put, Size: 1, Count: 1, Threads: MaxThreads + 1},
	} {
		_, err := w.do(t.Context(), j)
		require.ErrorContains(t, err, "there are 64 threads")
	}
}

func TestCallsGoThroughTheLifeOfObjects(t *testing.T) {
	f := &fakeMaster{keys: map[model.Key]int{}, calls: map[string]int{}}
	w := &masterWorker{master: f, client: model.NewUUID()}
	for range 2 { // The same keys again: they were removed.
		a, err := w.do(t.Context(), Job{Do: Calls, Count: 16, Threads: 3, Repeat: 5, Segments: 4})
		require.NoError(t, err)
		require.Len(t, a.Phases, 5)
		for name, p := range a.Phases {
			require.Equal(t, 15, p.Calls, name)
			require.Positive(t, p.Seconds, name)
			require.LessOrEqual(t, p.P50, p.P99, name)
		}
	}
	require.Equal(t, map[string]int{"put_start": 30, "put_end": 30, "exist": 30, "replicas": 30, "remove": 30}, f.calls)
	require.Equal(t, 4, f.segments)
	require.Empty(t, f.keys)

	_, err := w.do(t.Context(), Job{Do: Fill, From: 500, Keys: 2500})
	require.NoError(t, err)
	require.Len(t, f.keys, 2500)
	for k, state := range f.keys {
		require.Len(t, k, KeyBytes)
		require.Equal(t, 2, state)
	}
	_, err = w.do(t.Context(), Job{Do: Fill, From: 2999, Keys: 1})
	require.ErrorContains(t, err, "another state", "what a call answers is looked at")
}

func TestMemoryCopies(t *testing.T) {
	mem, err := newArea()
	require.NoError(t, err)
	w := &memoryWorker{area: mem}
	for _, do := range []string{Put, Get} {
		a, err := w.do(t.Context(), Job{Do: do, Size: 4096, Count: 2, Threads: 2, Seconds: 1e-9, Limit: 1 << 20})
		require.NoError(t, err)
		require.GreaterOrEqual(t, a.Phases[do].Calls, 2)
	}
	require.NotContains(t, w.pool, byte(0), "zeros are copied faster than other bytes")
	w.pool[5] = 42
	_, err = w.do(t.Context(), Job{Do: Get, Size: smallSize, Count: 1, Threads: 1, Seconds: 1e-9})
	require.NoError(t, err)
	require.NotEqual(t, byte(42), w.pool[5], "it grew")
	_, err = w.do(t.Context(), Job{Do: Fill})
	require.ErrorContains(t, err, `there is no job "fill" here`)
}

func TestThreadsWorkAtOnceAndAllErrorsAreTold(t *testing.T) {
	var inside atomic.Int32
	met := make(chan struct{})
	wait := func(int) error { // Returns once both threads are in it.
		if inside.Add(1) == 2 {
			close(met)
		}
		select {
		case <-met:
			return nil
		case <-time.After(time.Minute):
			return errors.New("the other thread does not work")
		}
	}
	_, err := together(nil, []thread{{calls: 1, do: wait}, {calls: 1, do: wait}}, 0)
	require.NoError(t, err)

	fail := func(text string) func(int) error { return func(int) error { return errors.New(text) } }
	_, err = together(nil, []thread{{calls: 1, do: fail("one")}, {calls: 1, do: fail("two")}}, 0)
	require.ErrorContains(t, err, "one")
	require.ErrorContains(t, err, "two")
}

func TestServeAnswersEachJob(t *testing.T) {
	w, _ := newStoreWorker(t)
	var out bytes.Buffer
	jobs := `{"do":"put","size":10,"count":1,"threads":1,"limit":10}` + "\n" + `{"do":"dance"}` + "\n"
	require.NoError(t, serve(t.Context(), w, strings.NewReader(jobs), &out))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 3)
	require.JSONEq(t, `{"ready":true}`, lines[0])
	var a Answer
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &a))
	require.Equal(t, 1, a.Phases[Put].Calls)
	require.JSONEq(t, `{"error":"there is no job \"dance\" here"}`, lines[2])
	require.ErrorContains(t, serve(t.Context(), w, strings.NewReader("no job\n"), &out), "a job that is none")
}

func TestPer(t *testing.T) {
	require.InDelta(t, 60, Phase{Calls: 10, Seconds: 0.5}.Per(3), 1e-9)
	require.Zero(t, Phase{Calls: 10}.Per(3), "no time, no rate")
}

// TestProcessorTimeOfAPhase has a thread use a known time on a processor.
func TestProcessorTimeOfAPhase(t *testing.T) {
	const used = 50 * time.Millisecond
	burn := func(int) error {
		m, err := cluster.StartMeter()
		for spent := time.Duration(0); err == nil && spent < used; {
			spent, err = m.Stop()
		}
		return err
	}
	p, err := together(nil, []thread{{calls: 2, do: burn}}, 0)
	require.NoError(t, err)
	require.GreaterOrEqual(t, p.CPU, 2*used.Seconds())
	require.InDelta(t, p.CPU/2/1000, p.CPUPer(1000), 1e-12)
	require.Zero(t, Phase{CPU: 1}.CPUPer(1), "nothing was called")

	gone := exec.Command("true")
	require.NoError(t, gone.Run())
	_, err = together([]int{gone.Process.Pid}, []thread{{calls: 1, do: burn}}, 0)
	require.ErrorContains(t, err, "it has ended")
}
