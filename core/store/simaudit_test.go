package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing/synctest"
	"time"

	records "github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
)

// audit checks from time to time, while nothing moves, what masters and ledgers hold.
func (s *simulation) audit(ctx context.Context, rng *rand.Rand) {
	for pause(ctx, time.Duration(rng.IntN(1500))*time.Millisecond) {
		synctest.Wait()
		for m := range s.masters() {
			s.auditMaster(m)
		}
		for _, f := range s.shelf {
			s.auditLedgers(f)
		}
		s.done.checked.Add(1)
	}
}

// masters are those that some process calls.
func (s *simulation) masters() map[*master.Service]struct{} {
	all := map[*master.Service]struct{}{}
	for _, v := range append(s.views[:], s.p.master) {
		if m := v.m.Load(); m != nil {
			all[(*m).(*master.Service)] = struct{}{}
		}
	}
	return all
}

// auditMaster checks that live, unfinished, held and free memory are all memory, and that no two objects of a master
// share any.
func (s *simulation) auditMaster(m *master.Service) {
	ctx := context.Background()
	if err := m.Balance(ctx); err != nil {
		s.t.Error(err)
	}
	used := map[model.SegmentID]*extents{}
	for i := range s.keys {
		story, err := m.Why(ctx, model.Caller{}, keyOf(i))
		if err != nil {
			return // It does not serve at present.
		}
		if story.Fate == model.FateEvicted {
			s.done.evicted.Add(1)
		}
		for _, r := range story.Replicas {
			for _, part := range r.Parts {
				if used[part.SegmentID] == nil {
					used[part.SegmentID] = &extents{}
				}
				at := part.Address
				if other := used[part.SegmentID].add(at, at+part.Size, story.Key); other != "" {
					s.t.Errorf("a master has %s and %s at %#x of segment %s", story.Key, other, at, part.Segment)
				}
			}
		}
	}
}

// auditLedgers checks that no two puts share memory in the ledgers of a store.
func (s *simulation) auditLedgers(f *shelf) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, file := range f.files {
		if !strings.HasPrefix(name, "ledger-") {
			continue
		}
		if err := auditLedger(file); err != nil {
			s.t.Errorf("%s: %v", name, err)
		}
	}
}

func auditLedger(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	mem := make(still, info.Size())
	if _, err := file.ReadAt(mem, 0); err != nil {
		return err
	}
	log, err := records.Open(mem)
	if err != nil {
		return err
	}
	var used extents
	_, err = log.Snapshot(1<<20, func(batch []byte) error {
		return records.Entries(batch, func(e *records.Entry) error {
			for _, x := range e.Extents {
				name := fmt.Sprintf("put %d (%s, %s)", e.Put, e.Name, e.State)
				if other := used.add(x.Offset, x.End(), name); other != "" {
					return fmt.Errorf("%s and %s share memory at %d", name, other, x.Offset)
				}
			}
			return nil
		})
	})
	return err
}

// still is a copy of a ledger's memory.
type still []byte

func (m still) Bytes() []byte    { return m }
func (m still) Resize(int) error { return os.ErrPermission }

// extents are ranges of memory and what lies there.
type extents struct{ all []extent }

type extent struct {
	from, to uint64
	what     string
}

// add adds a range and returns what it overlaps with, nothing as a rule.
func (e *extents) add(from, to uint64, what string) (other string) {
	for _, x := range e.all {
		if from < x.to && x.from < to {
			return x.what
		}
	}
	e.all = append(e.all, extent{from, to, what})
	return ""
}
