package s3

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/minio/minio-go/v7"
)

const (
	// again is how long after a failure the litter is tried again.
	again = time.Second
	// removeBatch is how many objects one request removes at most.
	removeBatch = 1000
)

// litter is what the server may have and no record is. It is removed in the background. The lock of the store guards it.
//
// The request of a Write that was given up may be carried out later. A placeholder, an object with its name and without a record,
// prevents that, because the request makes a new object or fails. The next start removes the placeholder.
type litter struct {
	blocked map[string]struct{} // names that get a placeholder
	sweep   bool                // objects of earlier generations, and placeholders of earlier starts, are removed
	dirty   chan struct{}       // capacity 1: there is something to do
}

func newLitter() litter {
	return litter{blocked: map[string]struct{}{}, dirty: make(chan struct{}, 1)}
}

func (l *litter) mark() {
	select {
	case l.dirty <- struct{}{}:
	default:
	}
}

// block makes sure that a name is that of no record.
func (s *store) block(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocked[name] = struct{}{}
	s.mark()
}

// sweepSoon has the objects removed that no start finds. The caller holds mu.
func (s *store) sweepSoon() {
	s.sweep = true
	s.mark()
}

// tidy removes the litter until the context ends.
func (s *store) tidy(ctx context.Context) {
	for {
		select {
		case <-s.dirty:
		case <-ctx.Done():
			return
		}
		if s.clean(ctx) == nil {
			continue
		}
		select {
		case <-time.After(again):
			s.mark()
		case <-ctx.Done():
			return
		}
	}
}

// clean removes the litter.
func (s *store) clean(ctx context.Context) error {
	if err := s.blockAll(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	sweep := s.sweep
	s.sweep = false
	s.mu.Unlock()
	if !sweep {
		return nil
	}
	err := s.removeOld(ctx)
	if err != nil {
		s.mu.Lock()
		s.sweep = true
		s.mu.Unlock()
	}
	return err
}

// placeholder is what is in one: fewer bytes than a head. It is not empty, because some servers do not read the
// body of the request of an empty object to its end.
const placeholder = "no record"

// blockAll gives the names that are blocked a placeholder each.
func (s *store) blockAll(ctx context.Context) error {
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.blocked))
	s.mu.Unlock()
	for _, name := range names {
		if _, err := s.bucket.put(ctx, name, minio.PutObjectOptions{}, []byte(placeholder)); err != nil {
			return err
		}
		s.mu.Lock()
		delete(s.blocked, name)
		s.mu.Unlock()
	}
	return nil
}

// removeOld removes the objects of earlier generations, and the placeholders of earlier starts.
func (s *store) removeOld(ctx context.Context) error {
	v := s.current()
	var names []string
	remove := func() error {
		err := s.bucket.remove(ctx, names, func(string) {})
		names = names[:0]
		return err
	}
	for o := range s.bucket.list(ctx, s.all()) {
		if o.Err != nil {
			return o.Err
		}
		at, generation, ok := s.parse(o.Key)
		if !ok || generation > v.Generation || generation == v.Generation && (o.Size > headSize || at[0] >= v.Starts) {
			continue
		}
		if names = append(names, o.Key); len(names) == removeBatch {
			if err := remove(); err != nil {
				return err
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	return remove()
}
