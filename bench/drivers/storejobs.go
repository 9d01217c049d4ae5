package drivers

import (
	"context"
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
)

// maxCalls bounds what a thread prepares for one job.
const maxCalls = 20_000

// setKey is the key of an object of a set; all drivers agree on it.
func setKey(size, i int) model.Key { return fmt.Sprintf("set/%d/%d", size, i) }

// setBytes is the size of the sets that Get reads, for objects of a size.
func setBytes(size int) int { return min(max(64<<20, 32*size), 256<<20) }

// Sets are those of the sizes.
func Sets(sizes ...int) []Set {
	out := make([]Set, len(sizes))
	for i, s := range sizes {
		out[i] = Set{Size: s, Bytes: setBytes(s)}
	}
	return out
}

// prepare touches memory of the pool first: the first job to use fresh pages would pay for them.
func (w *storeWorker) prepare(ctx context.Context, j Job) error {
	var warm []model.Key
	for i := range j.Warm / AreaBytes {
		k := fmt.Sprintf("warm/%d", i)
		if err := w.putItems(ctx, items([]model.Key{k}, w.area.source(AreaBytes), AreaBytes)); err != nil {
			return err
		}
		warm = append(warm, k)
	}
	if err := w.remove(ctx, warm); err != nil {
		return err
	}
	for _, s := range j.Sets {
		for at := 0; at < s.Objects(); at += setBatch {
			var batch []store.Item
			for i := at; i < min(at+setBatch, s.Objects()); i++ {
				batch = append(batch, store.Item{Key: setKey(s.Size, i), Value: [][]byte{w.area.source(s.Size)}})
			}
			if err := w.putItems(ctx, batch); err != nil {
				return err
			}
		}
	}
	return nil
}

// setBatch is how many objects of a set are put at once.
const setBatch = 16

func (w *storeWorker) put(ctx context.Context, j Job) (Answer, error) {
	threads, calls := make([]thread, j.Threads), min(maxCalls, max(1, j.Limit/(j.Threads*j.Count*j.Size)))
	w.puts++
	keys := make([][]model.Key, j.Threads)
	for t := range threads {
		mem, err := w.area.of(t, j)
		if err != nil {
			return Answer{}, err
		}
		clear(mem) // untouched, all its pages would be one page of zeros, which stays in cache
		batches := make([][]store.Item, calls)
		for c := range batches {
			batch := make([]model.Key, j.Count)
			for i := range batch {
				batch[i] = fmt.Sprintf("go/%d/%d/%d/%d", w.puts, t, c, i)
			}
			keys[t] = append(keys[t], batch...)
			batches[c] = items(batch, mem, j.Size)
		}
		threads[t] = thread{calls: calls, do: func(c int) error { return w.putItems(ctx, batches[c]) }}
	}
	p, err := together(j.PIDs, threads, seconds(j.Seconds))
	for t := range threads {
		err = errors.Join(err, w.remove(ctx, keys[t][:threads[t].done*j.Count]))
	}
	return Answer{Phases: map[string]Phase{Put: p}}, err
}

func (w *storeWorker) get(ctx context.Context, j Job) (Answer, error) {
	threads := make([]thread, j.Threads)
	batches := Set{Size: j.Size * j.Count, Bytes: setBytes(j.Size)}.Objects()
	dst := make([][]byte, j.Threads)
	for t := range threads {
		mem, err := w.area.of(t, j)
		if err != nil {
			return Answer{}, err
		}
		clear(mem)
		dst[t] = mem
		keys, parts := make([][]model.Key, batches), make([][]byte, j.Count)
		for c := range keys {
			for i := range j.Count {
				keys[c] = append(keys[c], setKey(j.Size, c*j.Count+i))
			}
		}
		for i := range parts {
			parts[i] = mem[i*j.Size : (i+1)*j.Size]
		}
		from := t * batches / j.Threads
		threads[t] = thread{calls: 1 << 30, do: func(c int) error { return w.getInto(ctx, keys[(from+c)%batches], parts, j.Size) }}
	}
	p, err := together(j.PIDs, threads, seconds(j.Seconds))
	for t := range threads {
		if err == nil {
			err = w.area.check(dst[t], j.Size)
		}
	}
	return Answer{Phases: map[string]Phase{Get: p}}, err
}

func (w *storeWorker) getInto(ctx context.Context, keys []model.Key, dst [][]byte, size int) error {
	for i, r := range w.client.BatchGetInto(ctx, keys, dst) {
		if r.Err != nil {
			return fmt.Errorf("get %s: %w", keys[i], r.Err)
		}
		if r.Value != size {
			return fmt.Errorf("get %s: %d bytes of %d", keys[i], r.Value, size)
		}
	}
	return nil
}
