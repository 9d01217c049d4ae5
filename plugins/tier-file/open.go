package file

import (
	"slices"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/indexlog"
	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/record"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// openLog reads which records there are, and has the rest of the files be free.
func (t *fileTier) openLog() (err error) {
	owner := indexlog.Owner{Volume: t.info.ID, Generation: t.info.Generation}
	var skipped uint64
	if t.journal.log, skipped, err = indexlog.Open(t.dir, owner, t.replay); err != nil {
		return err
	}
	dropped := t.layOut()
	if t.journal.log == nil {
		if t.journal.log, err = indexlog.Create(t.dir, 1, owner); err != nil {
			return err
		}
		if err := t.journal.log.Commit(); err != nil {
			return err
		}
	}
	if skipped > 0 || dropped > 0 {
		t.log.Warn("read an incomplete index log; what it lacks is free space", "folder", t.dir,
			"damaged_pages", skipped, "replaced_records", dropped)
		return t.journal.rewrite(t)
	}
	return nil
}

// replay applies one event of the log. The last one counts: a record that was written where another
// one was before has replaced it.
func (t *fileTier) replay(e *indexlog.Event) {
	old := t.table.find(e.Address)
	if e.Forget {
		if old != nil && old.seq == e.Sequence {
			t.table.remove(old)
			t.table.release(old)
		}
		return
	}
	if e.Size == 0 || e.Size > record.MaxValue || !t.files.has(e.Address, units(e.Size)) {
		return
	}
	if old != nil {
		if old.seq >= e.Sequence {
			return
		}
		t.table.remove(old)
		t.table.release(old)
	}
	t.table.add(entry{
		addr: e.Address, seq: e.Sequence, version: tier.Version{Epoch: e.Epoch, Put: e.Put}, size: e.Size,
		sum: e.Sum, summed: e.Summed, key: string(e.Key),
	})
}

// layOut drops records that a later one overlaps, and frees what no record takes.
func (t *fileTier) layOut() (dropped int) {
	all := t.table.all()
	slices.SortFunc(all, func(a, b *entry) int {
		if a.addr < b.addr {
			return -1
		}
		return 1
	})
	kept := all[:0]
	for _, e := range all {
		if n := len(kept); n > 0 && kept[n-1].addr+kept[n-1].units() > e.addr {
			old := e
			if kept[n-1].seq < e.seq {
				old, kept[n-1] = kept[n-1], e
			}
			t.table.remove(old)
			t.table.release(old)
			dropped++
			continue
		}
		kept = append(kept, e)
	}
	for i, f := range t.files.all {
		at, end := pageAddress(i, 0), pageAddress(i, f.pages)
		for len(kept) > 0 && kept[0].addr < end {
			t.space.Free(at, kept[0].addr-at)
			at = kept[0].addr + kept[0].units()
			kept = kept[1:]
		}
		t.space.Free(at, end-at)
	}
	return dropped
}
