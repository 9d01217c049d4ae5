package main

import (
	"context"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
)

// job is a line of work: Calls calls, each of Count objects of Size bytes.
type job struct {
	Op    string `json:"op"` // put or get
	Size  int    `json:"size"`
	Count int    `json:"count"`
	Calls int    `json:"calls"`
}

// worker does jobs, one at a time.
type worker struct {
	client *client.Client
	mem    []byte // registered
}

// do gives the seconds of each call. Only the calls are timed: puts are of keys that are not
// there, gets of keys that are. What is read stays in the pool, since the memory of what was
// read is not free as soon as it is removed.
func (w *worker) do(ctx context.Context, j job) ([]float64, error) {
	if j.Size*j.Count > len(w.mem) {
		return nil, fmt.Errorf("it is more than the registered memory of %d bytes", len(w.mem))
	}
	items, keys, mem := make([]store.Item, j.Count), make([]model.Key, j.Count), make([][]byte, j.Count)
	for i := range keys {
		keys[i], mem[i] = fmt.Sprintf("go/%s/%d/%d", j.Op, j.Size, i), w.mem[i*j.Size:(i+1)*j.Size]
		items[i] = store.Item{Key: keys[i], Value: mem[i : i+1]}
	}
	put := func() error { return first(w.client.PutItems(ctx, items, model.ReplicateConfig{ReplicaNum: 1})) }
	remove := func() error {
		for _, err := range w.client.BatchRemove(ctx, keys, true) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	call, before, after := put, func() error { return nil }, remove
	switch j.Op {
	case "put":
	case "get":
		if err := put(); err != nil {
			return nil, err
		}
		call, after = func() error { return w.get(ctx, keys, mem, j.Size) }, before
	default:
		return nil, fmt.Errorf("op %q is neither put nor get", j.Op)
	}
	seconds := make([]float64, j.Calls)
	for i := range seconds {
		begin := time.Now()
		if err := call(); err != nil {
			return nil, err
		}
		seconds[i] = time.Since(begin).Seconds()
		if err := after(); err != nil {
			return nil, err
		}
	}
	return seconds, nil
}

func (w *worker) get(ctx context.Context, keys []model.Key, mem [][]byte, size int) error {
	for i, r := range w.client.BatchGetInto(ctx, keys, mem) {
		if r.Err != nil || r.Value != size {
			return fmt.Errorf("get %s: %d bytes of %d: %w", keys[i], r.Value, size, r.Err)
		}
	}
	return nil
}

func first(results []store.PutResult) error {
	for _, r := range results {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}
