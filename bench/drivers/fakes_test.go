package drivers

import (
	"context"
	"errors"
	"sync"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
)

// fakeStore keeps objects in a map. Safe for concurrent use, as a client is.
type fakeStore struct {
	mu      sync.Mutex
	objects map[model.Key][]byte
	puts    int
	damaged bool // what is read has a wrong byte
}

func (f *fakeStore) PutItems(_ context.Context, items []store.Item, _ model.ReplicateConfig) []store.PutResult {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]store.PutResult, len(items))
	for i, it := range items {
		if _, there := f.objects[it.Key]; there {
			out[i].Err = errors.New("it is there: " + it.Key)
			continue
		}
		f.objects[it.Key] = append([]byte(nil), it.Parts[0]...)
		f.puts++
	}
	return out
}

func (f *fakeStore) BatchGetInto(_ context.Context, keys []model.Key, dst [][]byte) []model.Result[int] {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]model.Result[int], len(keys))
	for i, k := range keys {
		object, there := f.objects[k]
		if !there {
			out[i].Err = errors.New("no " + k)
			continue
		}
		out[i].Value = copy(dst[i], object)
		if f.damaged {
			dst[i][len(object)-1] ^= 1
		}
	}
	return out
}

func (f *fakeStore) BatchRemove(_ context.Context, keys []model.Key, _ bool) []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]error, len(keys))
	for i, k := range keys {
		if _, there := f.objects[k]; !there {
			out[i] = errors.New("no " + k)
		}
		delete(f.objects, k)
	}
	return out
}

// fakeMaster notes the calls and what state each key is in: 1 put, 2 readable.
type fakeMaster struct {
	mu       sync.Mutex
	keys     map[model.Key]int
	segments int
	calls    map[string]int
}

func (f *fakeMaster) note(name string) func() {
	f.mu.Lock()
	f.calls[name]++
	return f.mu.Unlock
}

func (f *fakeMaster) MountSegment(context.Context, model.ClientID, model.Segment) error {
	f.segments++
	return nil
}

func (f *fakeMaster) Ping(context.Context, model.ClientID, model.PingReport) (model.PingReply, error) {
	return model.PingReply{}, nil
}

func (f *fakeMaster) PutStart(_ context.Context, _ model.Caller, items []model.PutItem, _ model.ReplicateConfig, _ *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	defer f.note("put_start")()
	out := make([]model.Result[[]model.Replica], len(items))
	for i, it := range items {
		out[i].Err = f.step(it.Key, 0, 1)
	}
	return out, nil
}

func (f *fakeMaster) PutEnd(_ context.Context, _ model.Caller, items []model.EndItem, _ []error) ([]error, error) {
	defer f.note("put_end")()
	out := make([]error, len(items))
	for i, it := range items {
		out[i] = f.step(it.Key, 1, 2)
	}
	return out, nil
}

func (f *fakeMaster) Exist(_ context.Context, _ model.Caller, keys []model.Key) ([]model.Result[bool], error) {
	defer f.note("exist")()
	out := make([]model.Result[bool], len(keys))
	for i, k := range keys {
		out[i].Value = f.keys[k] == 2
	}
	return out, nil
}

func (f *fakeMaster) GetReplicas(_ context.Context, _ model.Caller, keys []model.Key, _ *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
	defer f.note("replicas")()
	out := make([]model.Result[model.Object], len(keys))
	for i, k := range keys {
		out[i].Err = f.step(k, 2, 2)
	}
	return out, nil
}

func (f *fakeMaster) Remove(_ context.Context, _ model.Caller, keys []model.Key, _ bool) ([]error, error) {
	defer f.note("remove")()
	out := make([]error, len(keys))
	for i, k := range keys {
		out[i] = f.step(k, 2, 0)
	}
	return out, nil
}

func (f *fakeMaster) step(k model.Key, from, to int) error {
	if f.keys[k] != from {
		return errors.New("it is in another state: " + k)
	}
	if f.keys[k] = to; to == 0 {
		delete(f.keys, k)
	}
	return nil
}
