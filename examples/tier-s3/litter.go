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
// The request of a Write that was given up may be carried out later. A grave, an object with its name and without a record,
// prevents that, because the request makes a new object or fails. The next start removes the grave.
type litter struct {
	buried map[string]struct{} // names that get a grave
	sweep  bool                // objects of earlier generations, and graves of earlier starts, are removed
	dirty  chan struct{}       // capacity 1: there is something to do
}

func newLitter() litter {
	return litter{buried: map[string]struct{}{}, dirty: make(chan struct{}, 1)}
}

func (l *litter) mark() {
	select {
	case l.dirty <- struct{}{}:
	default:
	}
}

// bury makes sure that a name is that of no record.
func (s *store) bury(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buried[name] = struct{}{}
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
	if err := s.burials(ctx); err != nil {
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

// grave is what the object of a grave has: fewer bytes than a head. It is not empty, because some servers do not read the
// body of the request of an empty object to its end.
const grave = "no record"

// burials gives the names that are buried a grave each.
func (s *store) burials(ctx context.Context) error {
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.buried))
	s.mu.Unlock()
	for _, name := range names {
		if _, err := s.bucket.put(ctx, name, minio.PutObjectOptions{}, []byte(grave)); err != nil {
			return err
		}
		s.mu.Lock()
		delete(s.buried, name)
		s.mu.Unlock()
	}
	return nil
}

// removeOld removes the objects of earlier generations, and the graves of earlier starts.
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
