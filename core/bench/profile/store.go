package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/measure"
	"github.com/mooncake-go/mooncake/core/model"
)

// threads is how many goroutines do a load.
const threads = 4

// PoolBytes is the memory that the load of a store needs in its pool.
const PoolBytes = 256 << 20

// shape is a batch of objects of one size.
type shape struct{ count, size int }

func (s shape) bytes() int { return s.count * s.size }

// shapes are put and got in turn.
var shapes = []shape{{64, 4 << 10}, {32, 64 << 10}, {16, 1 << 20}}

// largest is the memory of a batch.
const largest = 16 << 20

// StoreClient is what the load of a store asks of a client.
type StoreClient interface {
	RegisterBuffer(ctx context.Context, mem []byte, location string) error
	UnregisterBuffer(ctx context.Context, mem []byte) error
	BatchPut(ctx context.Context, keys []model.Key, values [][]byte, cfg model.ReplicateConfig) []error
	BatchGetInto(ctx context.Context, keys []model.Key, dst [][]byte) []model.Result[int]
	BatchRemove(ctx context.Context, keys []model.Key, force bool) []error
}

// Store is the load of a store: batches of objects of 4 KiB, 64 KiB and 1 MiB in turn, moved
// from and to registered memory by four threads.
type Store struct {
	client StoreClient
	prefix string
	source []byte   // what every object is an extent of
	into   [][]byte // of each thread
	puts   int      // batches put so far, which makes keys new
}

// NewStore registers memory with the client and puts what Gets reads. Close it.
func NewStore(ctx context.Context, c StoreClient) (*Store, error) {
	s := &Store{client: c, prefix: "profile/" + model.NewUUID().String(), source: make([]byte, largest)}
	for i := range s.source {
		s.source[i] = byte(i ^ i>>8 ^ i>>16)
	}
	if err := c.RegisterBuffer(ctx, s.source, ""); err != nil {
		return nil, err
	}
	for range threads {
		mem := make([]byte, largest)
		if err := c.RegisterBuffer(ctx, mem, ""); err != nil {
			return nil, errors.Join(err, s.Close(ctx))
		}
		s.into = append(s.into, mem)
	}
	for _, sh := range shapes {
		if err := s.put(ctx, s.keys("set", sh), sh); err != nil {
			return nil, errors.Join(err, s.Close(ctx))
		}
	}
	return s, nil
}

// Close removes what was put and gives the memory back.
func (s *Store) Close(ctx context.Context) error {
	var all []error
	for _, sh := range shapes {
		s.client.BatchRemove(ctx, s.keys("set", sh), true) // Those that are not there need not go.
	}
	for _, mem := range append(s.into, s.source) {
		all = append(all, s.client.UnregisterBuffer(ctx, mem))
	}
	s.into = nil
	return errors.Join(all...)
}

// Puts is the load of puts, each batch of which is removed again.
func (s *Store) Puts() Load { return Load{Name: "store-put", Run: s.runPuts} }

// Gets is the load of gets. What came last is compared with what was put, in the end.
func (s *Store) Gets() Load { return Load{Name: "store-get", Run: s.runGets} }

func (s *Store) runPuts(ctx context.Context, end time.Time) error {
	s.puts++
	run := s.puts
	return together(func(thread int) error {
		return repeat(end, func(turn int, sh shape) error {
			keys := s.keys(fmt.Sprintf("put/%d/%d/%d", run, thread, turn), sh)
			if err := s.put(ctx, keys, sh); err != nil {
				return err
			}
			return errors.Join(s.client.BatchRemove(ctx, keys, true)...)
		})
	})
}

func (s *Store) runGets(ctx context.Context, end time.Time) error {
	return together(func(thread int) error {
		into := s.into[thread]
		clear(into)
		keys, dst := map[shape][]model.Key{}, map[shape][][]byte{}
		for _, sh := range shapes {
			keys[sh], dst[sh] = s.keys("set", sh), split(into, sh)
		}
		var last shape
		err := repeat(end, func(_ int, sh shape) error {
			last = sh
			return s.get(ctx, sh, keys[sh], dst[sh])
		})
		if n := last.bytes(); err == nil && !bytes.Equal(into[:n], s.source[:n]) {
			return fmt.Errorf("get of %d objects of %d bytes: other bytes came back than were put", last.count, last.size)
		}
		return err
	})
}

func (s *Store) put(ctx context.Context, keys []model.Key, sh shape) error {
	if err := errors.Join(s.client.BatchPut(ctx, keys, split(s.source, sh), model.DefaultReplicateConfig())...); err != nil {
		return fmt.Errorf("put of %d objects of %d bytes: %w", sh.count, sh.size, err)
	}
	return nil
}

func (s *Store) get(ctx context.Context, sh shape, keys []model.Key, dst [][]byte) error {
	for _, r := range s.client.BatchGetInto(ctx, keys, dst) {
		if r.Err != nil {
			return fmt.Errorf("get of %d objects of %d bytes: %w", sh.count, sh.size, r.Err)
		}
		if r.Value != sh.size {
			return fmt.Errorf("get of %d objects of %d bytes: one has %d", sh.count, sh.size, r.Value)
		}
	}
	return nil
}

func (s *Store) keys(name string, sh shape) []model.Key {
	keys := make([]model.Key, sh.count)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s/%s/%d/%d", s.prefix, name, sh.size, i)
	}
	return keys
}

// split cuts memory into the objects of a batch.
func split(mem []byte, sh shape) [][]byte {
	out := make([][]byte, sh.count)
	for i := range out {
		out[i] = mem[i*sh.size : (i+1)*sh.size]
	}
	return out
}

// repeat does every shape in turn until end, each once at least.
func repeat(end time.Time, do func(turn int, sh shape) error) error {
	for turn := 0; turn < len(shapes) || time.Now().Before(end); turn++ {
		if err := do(turn, shapes[turn%len(shapes)]); err != nil {
			return err
		}
	}
	return nil
}

// together runs a function in each thread.
func together(do func(thread int) error) error {
	_, _, err := measure.Threads(threads, func(i int, _ time.Time, _ *measure.Histogram) error { return do(i) })
	return err
}
