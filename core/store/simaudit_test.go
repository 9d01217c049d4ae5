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
	log, err := openLedger(file)
	if err != nil {
		return err
	}
	var used extents
	return entries(log, func(e *records.Entry, x records.Extent) error {
		name := fmt.Sprintf("put %d (%s, %s)", e.Put, e.Name, e.State)
		if other := used.add(x.Offset, x.End(), name); other != "" {
			return fmt.Errorf("%s and %s share memory at %d", name, other, x.Offset)
		}
		return nil
	})
}

// openLedger opens a copy of a ledger.
func openLedger(file *os.File) (*records.Log, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	mem := make(still, info.Size())
	if _, err := file.ReadAt(mem, 0); err != nil {
		return nil, err
	}
	return records.Open(mem)
}

// entries calls f for each extent of each entry of a ledger.
func entries(log *records.Log, f func(*records.Entry, records.Extent) error) error {
	_, err := log.Snapshot(1<<20, func(batch []byte) error {
		return records.Entries(batch, func(e *records.Entry) error {
			for _, x := range e.Extents {
				if err := f(e, x); err != nil {
					return err
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

// memory says what masters and ledgers know of an object, and whose bytes lie where it is.
func (s *simulation) memory(key model.Key) string {
	var out strings.Builder
	for m := range s.masters() {
		story, err := m.Why(context.Background(), model.Caller{}, key)
		fmt.Fprintf(&out, "a master: %v, since %v, %d bytes, checksum %x, lease %v, %v\n", story.Fate, story.When, story.Size, story.Checksum.Value, story.LeaseLeft, err)
		for _, r := range story.Replicas {
			for _, part := range r.Parts {
				fmt.Fprintf(&out, " %d bytes at %#x of segment %s (%s, %s)\n", part.Size, part.Address, part.Segment, part.SegmentID, part.Endpoint)
				for _, f := range s.shelf {
					out.WriteString(s.contents(f, part))
				}
			}
		}
	}
	return out.String()
}

// contents says what lies in a part of a replica, and what the ledger has there, if a shelf has its segment.
func (s *simulation) contents(f *shelf, part model.Part) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := part.SegmentID.String()
	data, file := f.files["memory-"+id], f.files["ledger-"+id]
	if data == nil || file == nil {
		return ""
	}
	log, err := openLedger(file)
	if err != nil {
		return fmt.Sprintf("  %v\n", err)
	}
	from, b := part.Address-log.Place().Base, make([]byte, part.Size)
	if _, err := data.ReadAt(b, int64(from)); err != nil {
		return fmt.Sprintf("  at %d: %v\n", from, err)
	}
	out := s.source(b)
	_ = entries(log, func(e *records.Entry, x records.Extent) error {
		if x.Offset < from+part.Size && from < x.End() {
			out += fmt.Sprintf("  the ledger has put %d (%s, %s) from %d to %d, the part is from %d to %d\n", e.Put, e.Name, e.State, x.Offset, x.End(), from, from+part.Size)
		}
		return nil
	})
	return out
}
