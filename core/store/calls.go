package store

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Calls adds calls for a single key, and other forms of the batch methods, to a Pool.
type Calls struct{ Pool }

// Put stores an object.
func (c Calls) Put(ctx context.Context, key model.Key, value []byte, cfg model.ReplicateConfig) error {
	return c.PutFragments(ctx, key, [][]byte{value}, cfg)
}

// PutFragments stores an object that lies in several pieces of memory.
func (c Calls) PutFragments(ctx context.Context, key model.Key, value [][]byte, cfg model.ReplicateConfig) error {
	return c.PutItems(ctx, []Item{{Key: key, Value: value}}, cfg)[0].Err
}

// BatchPut stores objects.
func (c Calls) BatchPut(ctx context.Context, keys []model.Key, values [][]byte, cfg model.ReplicateConfig) []error {
	if len(keys) != len(values) {
		return Repeat(errs.New(errs.InvalidParams, "store: put", "%d keys came with %d values", len(keys), len(values)), len(keys))
	}
	items := make([]Item, len(keys))
	for i, k := range keys {
		items[i] = Item{Key: k, Value: values[i : i+1]}
	}
	out := make([]error, len(keys))
	for i, r := range c.PutItems(ctx, items, cfg) {
		out[i] = r.Err
	}
	return out
}

// Upsert stores an object in place of an existing one.
func (c Calls) Upsert(ctx context.Context, key model.Key, value []byte, cfg model.ReplicateConfig) error {
	cfg.Upsert = true
	return c.Put(ctx, key, value, cfg)
}

// Get reads an object into new memory.
func (c Calls) Get(ctx context.Context, key model.Key) ([]byte, error) {
	r := c.BatchGet(ctx, []model.Key{key})[0]
	return r.Value, r.Err
}

// BatchGet reads objects into new memory.
func (c Calls) BatchGet(ctx context.Context, keys []model.Key) []model.Result[[]byte] {
	out := make([]model.Result[[]byte], len(keys))
	for i, r := range c.GetBuffers(ctx, keys, true) {
		if out[i].Err = r.Err; r.Err == nil {
			out[i].Value = r.Value.Bytes()
		}
	}
	return out
}

// GetInto reads an object into memory, one piece after the other, and returns its size.
func (c Calls) GetInto(ctx context.Context, key model.Key, dst ...[]byte) (int, error) {
	r := c.GetFragments(ctx, []model.Key{key}, dst, []uint64{0, uint64(len(dst))})[0]
	return r.Value, r.Err
}

// BatchGetInto reads objects into memory and returns their sizes.
func (c Calls) BatchGetInto(ctx context.Context, keys []model.Key, dst [][]byte) []model.Result[int] {
	return c.GetFragments(ctx, keys, dst, nil)
}

// Exist reports whether an object can be read, and grants it a lease.
func (c Calls) Exist(ctx context.Context, key model.Key) (bool, error) {
	r := c.BatchExist(ctx, []model.Key{key})[0]
	return r.Value, r.Err
}

// Prefix returns how many of the keys, from the first on, can be read without a gap.
func (c Calls) Prefix(ctx context.Context, keys []model.Key) (int, error) {
	for i, r := range c.BatchExist(ctx, keys) {
		if r.Err != nil || !r.Value {
			return i, r.Err
		}
	}
	return len(keys), nil
}

// Query returns where objects lie, and grants them a lease.
func (c Calls) Query(ctx context.Context, keys []model.Key) []model.Result[model.Object] {
	var a model.Answer[model.Object]
	c.QueryTo(ctx, keys, &a)
	return a.Results
}

// Size returns the size of an object in bytes, and grants it a lease.
func (c Calls) Size(ctx context.Context, key model.Key) (uint64, error) {
	r := c.Query(ctx, []model.Key{key})[0]
	return r.Value.Size, r.Err
}

// Remove removes an object.
func (c Calls) Remove(ctx context.Context, key model.Key, force bool) error {
	return c.BatchRemove(ctx, []model.Key{key}, force)[0]
}

// RemoveAll removes all objects that may be removed and returns their number.
func (c Calls) RemoveAll(ctx context.Context, force bool) (int, error) {
	return c.RemoveByRegex(ctx, "", force)
}

// BatchUpsert stores objects in place of existing ones. Of several values for one key the last
// counts.
func (c Calls) BatchUpsert(ctx context.Context, keys []model.Key, values [][]byte, cfg model.ReplicateConfig) []error {
	cfg.Upsert = true
	return c.BatchPut(ctx, keys, values, cfg)
}

// GetBuffer reads an object into memory of the client, which the caller releases.
func (c Calls) GetBuffer(ctx context.Context, key model.Key) (Lent, error) {
	r := c.GetBuffers(ctx, []model.Key{key}, false)[0]
	return r.Value, r.Err
}

// CreateCopyTask has an object copied to segments.
func (c Calls) CreateCopyTask(ctx context.Context, key model.Key, targets []string) (model.TaskID, error) {
	return c.CreateTask(ctx, model.TaskSpec{Kind: model.CopyObject, Key: key, Targets: targets})
}

// CreateMoveTask has an object moved from one segment to another.
func (c Calls) CreateMoveTask(ctx context.Context, key model.Key, source, target string) (model.TaskID, error) {
	return c.CreateTask(ctx, model.TaskSpec{Kind: model.MoveObject, Key: key, Source: source, Targets: []string{target}})
}
