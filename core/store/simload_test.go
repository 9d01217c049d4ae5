package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
)

// load is one client of a simulation, which ends at times and starts anew as another process.
type load struct {
	*simulation
	*member
	i, life int
	rng     *rand.Rand
}

var errCrashed = errors.New("the client ended before its put")

func keyOf(i int) model.Key { return fmt.Sprint("key", i) }

// load runs a client until ctx ends.
func (s *simulation) load(ctx context.Context, i int) {
	l := &load{simulation: s, i: i, rng: rand.New(rand.NewPCG(s.seed, uint64(20+i)))}
	l.start()
	for pause(ctx, time.Duration(l.rng.IntN(100))*time.Millisecond) {
		key := keyOf(l.rng.IntN(s.keys))
		if i >= simWriters {
			l.read(key)
			continue
		}
		l.step(key)
	}
	l.wire.SetHook(nil)
}

func (l *load) start() {
	l.life++
	l.member = l.p.member(fmt.Sprintf("c%d:%d", l.i, l.life), memberOptions{client: withChecksum(l.seed%2 == 0), master: l.views[len(l.stores)+l.i]})
	l.wire.SetHook(l.hook(len(l.stores)+l.i, rand.New(rand.NewPCG(l.seed, uint64(10+l.i+100*l.life)))))
}

// crash ends the process at once: the master hears no more of it, and nothing that it writes arrives.
func (l *load) crash() {
	p := l.processes[len(l.stores)+l.i]
	l.wire.Kill()
	p.kill()
	l.stop()
	p.resume()
	l.start()
}

// confirmed returns whole for one attempt of the client. A master waits for a second for the nodes of values that the key
// had before, and then goes on without them if what it writes or removes now lies elsewhere.
func (l *load) confirmed() (whole func() int) {
	slow := l.views[len(l.stores)+l.i].slow.Load()
	return func() int {
		if l.views[len(l.stores)+l.i].slow.Load() != slow {
			return 0
		}
		return l.whole()
	}
}

func (l *load) step(key model.Key) {
	ctx := l.t.Context()
	switch n := l.rng.IntN(100); {
	case n < 20:
		a := l.attempt("put", key)
		l.try(a, l.confirmed(), func() error { return l.Put(ctx, key, a.value, l.settings(false)) })
	case n < 32:
		a := l.attempt("upsert", key)
		l.try(a, l.confirmed(), func() error { return l.Put(ctx, key, a.value, l.settings(true)) })
	case n < 43:
		a := l.attempt([]string{"put", "upsert"}[l.rng.IntN(2)], key)
		l.try(a, l.confirmed(), func() error { return l.layers(a) })
	case n < 47:
		a := &attempt{kind: "remove", key: key, client: l.i}
		l.try(a, l.confirmed(), func() error { return l.BatchRemove(ctx, []model.Key{key}, l.rng.IntN(2) == 0)[0] })
	case n < 90:
		l.read(key)
	default:
		l.task(key)
	}
}

// read reads all of what may be there, or a range.
func (l *load) read(key model.Key) {
	if l.rng.IntN(2) == 0 {
		l.ranges(key)
		return
	}
	at := l.began()
	got, err := l.Get(l.t.Context(), key)
	l.check(key, l.i, at, 0, got, true, err)
}

// attempt is a put of a value that no other put has.
func (l *load) attempt(kind string, key model.Key) *attempt {
	size := 1 + l.rng.IntN(4000)
	if l.rng.IntN(3) == 0 {
		size += l.rng.IntN(simLarge)
	}
	value := content(fmt.Sprint(l.i, " ", l.rng.Uint64()), size+16)
	return &attempt{kind: kind, key: key, client: l.i, value: value}
}

// settings are those of a put of one replica as a rule, or two.
func (l *load) settings(upsert bool) model.ReplicateConfig {
	return model.ReplicateConfig{ReplicaNum: 1 + uint32(l.rng.IntN(4)/3), Upsert: upsert}
}

// layers puts a value in a session, in pieces and in any order. The process may end meanwhile.
func (l *load) layers(a *attempt) error {
	ctx, keys := l.t.Context(), []model.Key{a.key}
	if err := l.StartPuts(ctx, keys, []uint64{uint64(len(a.value))}, l.settings(a.kind == "upsert"), nil)[0]; err != nil {
		return err
	}
	pieces := 1 + l.rng.IntN(5)
	size := (len(a.value) + pieces - 1) / pieces
	for _, i := range l.rng.Perm(pieces) {
		from, to := min(i*size, len(a.value)), min((i+1)*size, len(a.value))
		if from == to {
			continue
		}
		l.PutRanges(ctx, []store.Ranges{write(a.key, from, a.value[from:to])})
		if l.rng.IntN(25) == 0 {
			l.crash()
			return errCrashed
		}
		time.Sleep(time.Duration(l.rng.IntN(2000)) * time.Millisecond)
	}
	return l.EndPuts(ctx, keys)[0]
}

// ranges reads a range of what may be there, directly or in a session that goes on for a while.
func (l *load) ranges(key model.Key) {
	ctx := l.t.Context()
	off, buf := uint64(l.rng.IntN(2000)), make([]byte, 16+l.rng.IntN(1000))
	if l.rng.IntN(2) == 0 {
		off, buf = uint64(l.rng.IntN(2)*l.rng.IntN(simLarge/2)), make([]byte, 16+l.rng.IntN(simLarge/8))
	}
	read := []store.Ranges{{Key: key, Fragments: []store.Fragment{{Offset: off, Mem: buf}}}}
	at := l.began()
	if l.rng.IntN(2) == 0 {
		got := l.GetIntoRanges(ctx, read)[0][0]
		l.check(key, l.i, at, off, buf, false, got.Err)
		return
	}
	if l.StartGets(ctx, []model.Key{key})[0] != nil { // A session reads the value that was there when it began.
		return
	}
	for range 1 + l.rng.IntN(4) {
		got := l.GetRanges(ctx, read)[0]
		l.check(key, l.i, at, off, buf, false, got.Err)
		time.Sleep(time.Duration(l.rng.IntN(3000)) * time.Millisecond)
	}
	_ = l.EndGets(ctx, []model.Key{key})
}

// task has a store copy an object to the other one, or move it. Whether it does is not waited for.
func (l *load) task(key model.Key) {
	from := l.rng.IntN(len(l.stores))
	spec := model.TaskSpec{Kind: model.CopyObject, Key: key, Targets: []string{l.storeAt(1 - from).name}}
	if l.rng.IntN(2) == 0 {
		spec.Kind, spec.Source = model.MoveObject, l.storeAt(from).name
	}
	_, _ = l.CreateTask(l.t.Context(), spec) // The object need not be there.
}

// drain has stores emptied, one after the other, and gives up on those that are not empty after a while.
func (s *simulation) drain(ctx context.Context, rng *rand.Rand) {
	for pause(ctx, time.Duration(rng.IntN(15000))*time.Millisecond) {
		m := s.serving()
		if m == nil || s.emptied() >= 0 {
			continue
		}
		id, err := m.CreateDrainJob(ctx, model.DrainSpec{Segments: []string{s.storeAt(rng.IntN(len(s.stores))).name}, MaxConcurrency: 1 + rng.IntN(4)})
		if err != nil {
			continue
		}
		for wait := 5 + rng.IntN(30); wait > 0 && !s.over(m, id) && pause(ctx, 500*time.Millisecond); wait-- {
		}
		for m.CancelDrainJob(context.Background(), id) != nil && !s.over(m, id) {
			time.Sleep(time.Second) // Moves are in progress.
		}
		if job, err := m.DrainJob(context.Background(), id); err == nil && job.Status == model.JobSucceeded {
			s.done.drained.Add(1)
		}
	}
}

// over reports whether a job has ended, or its master has.
func (s *simulation) over(m *master.Service, id model.JobID) bool {
	job, err := m.DrainJob(context.Background(), id)
	return err != nil || job.Status.Final()
}

// emptied returns the number of a store that a drain job has emptied, -1 if there is none. It takes no objects before it
// starts anew with another name.
func (s *simulation) emptied() int {
	m := s.serving()
	if m == nil {
		return -1
	}
	segs, err := m.Segments(context.Background())
	if err != nil {
		return -1
	}
	for i := range s.stores {
		for _, x := range segs {
			if x.Name == s.storeAt(i).name && x.Status == model.SegmentDrained {
				return i
			}
		}
	}
	return -1
}
