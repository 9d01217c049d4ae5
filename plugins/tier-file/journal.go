package file

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/indexlog"
	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/volume"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

func (j *journal) start(t *fileTier) {
	j.some, j.full = make(chan struct{}, 1), make(chan struct{}, 1)
	j.commands, j.quit = make(chan command), make(chan struct{})
	j.running.Go(func() {
		for j.wait() {
			j.write(t)
		}
	})
}

func (j *journal) close() {
	if j.log != nil {
		j.log.Close()
		j.log = nil
	}
}

// wait runs commands until events are to be written. false says that the journal is to end.
func (j *journal) wait() bool {
	var due <-chan time.Time
	for {
		select {
		case <-j.some:
			if due == nil {
				timer := time.NewTimer(logEvery)
				defer timer.Stop()
				due = timer.C
			}
		case <-due:
			return true
		case <-j.full:
			return true
		case c := <-j.commands:
			c.done <- c.do()
		case <-j.quit:
			return false
		}
	}
}

// command has the journal run a function. When the context ends first, the function may still run.
func (t *fileTier) command(ctx context.Context, op string, do func() error) error {
	t.mu.Lock()
	live := t.state == running || t.state == stopping
	t.mu.Unlock()
	if !live {
		return errNotRunning(op)
	}
	if err := ctx.Err(); err != nil { // select would choose by chance.
		return errs.Wrap(errs.RPCTimeout, op, err)
	}
	c := command{do, make(chan error, 1)}
	select {
	case t.journal.commands <- c:
	case <-t.journal.quit:
		return errNotRunning(op)
	case <-ctx.Done():
		return errs.Wrap(errs.RPCTimeout, op, ctx.Err())
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return errs.Wrap(errs.RPCTimeout, op, ctx.Err())
	}
}

// write appends the events that wait, and rewrites a log that is too long or lacks some.
func (j *journal) write(t *fileTier) {
	t.mu.Lock()
	pages := t.pages.Take()
	size := j.log.Size() + uint64(len(pages))
	rewrite := j.broken != nil || size > 2*t.table.logged+logSlack
	t.mu.Unlock()
	if len(pages) > 0 && j.broken == nil {
		if err := j.log.Append(pages); err != nil {
			j.fail(t, err)
			return
		}
	}
	if rewrite {
		if err := j.rewrite(t); err != nil {
			j.fail(t, err)
		}
	}
}

// fail has the next write rewrite the log.
func (j *journal) fail(t *fileTier, err error) {
	if j.broken == nil {
		t.log.Warn("the index log cannot be written; what it lacks is free space after a crash", "folder", t.dir, "error", err)
	}
	j.broken = err
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults.writes++
}

// rewrite replaces the log by one that has the live records alone. Events that arrive meanwhile go
// to both logs, so that either is complete.
func (j *journal) rewrite(t *fileTier) error {
	t.mu.Lock()
	owner := indexlog.Owner{Volume: t.info.ID, Generation: t.info.Generation}
	t.mu.Unlock()
	log, err := indexlog.Create(t.dir, j.log.Number()+1, owner)
	if err != nil {
		return err
	}
	err = j.copy(t, log)
	if err == nil {
		err = log.Commit()
	}
	if err != nil {
		log.Discard()
		return err
	}
	j.log.Close()
	j.log, j.broken = log, nil
	return nil
}

// copy appends the live records to a new log, by their sequence.
func (j *journal) copy(t *fileTier, log *indexlog.Log) error {
	for from, more := uint64(0), true; more; {
		var batch indexlog.Pages
		n := 0
		t.mu.Lock()
		events := t.pages.Take()
		t.table.above(from, func(e *entry) bool {
			batch.Add(e.event())
			from = e.seq
			n++
			return n < rewriteBatch
		})
		t.mu.Unlock()
		more = n == rewriteBatch
		if len(events) > 0 {
			if j.broken == nil {
				if err := j.log.Append(events); err != nil {
					j.broken = err
				}
			}
			if err := log.Append(events); err != nil {
				return err
			}
		}
		if err := log.Append(batch.Take()); err != nil {
			return err
		}
	}
	return nil
}

// Flush implements tier.Tier.
func (t *fileTier) Flush(ctx context.Context) error {
	const op = "tier/file: flush"
	return t.command(ctx, op, func() error {
		j := &t.journal
		j.write(t)
		err := j.unsynced
		if err == nil {
			if err = errors.Join(t.files.sync(), j.log.Sync()); err != nil {
				// The kernel forgets what it failed to write: a later sync would succeed without it.
				j.unsynced = fmt.Errorf("a sync failed, so it is unknown what survives: %w", err)
				err = j.unsynced
				t.mu.Lock()
				t.faults.writes++
				t.breaks(err.Error())
				t.mu.Unlock()
			}
		}
		if err == nil {
			err = j.broken
		}
		if err != nil {
			return &errs.Error{Code: errs.FileWriteFail, Class: errs.ClassLocalDevice, Op: op, Err: err}
		}
		return nil
	})
}

// Wipe implements tier.Tier.
func (t *fileTier) Wipe(ctx context.Context) error {
	const op = "tier/file: wipe"
	return t.command(ctx, op, func() error { return errs.Wrap(errs.FileWriteFail, op, t.wipe()) })
}

func (t *fileTier) wipe() error {
	t.mu.Lock()
	t.wiping = true
	t.endWrites(errs.New(errs.UnavailableInCurrentStatus, "tier/file: write", "the volume is being wiped; write again"))
	info := t.info
	t.mu.Unlock()
	info.Generation++
	err := volume.Write(t.dir, &info)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wiping = false
	defer t.pump()
	t.info.Writes = info.Writes // The next one does not take this one's place, whatever is left of it.
	if err != nil {
		return err
	}
	// Writes that were accepted meanwhile have not begun.
	for _, e := range t.table.all() {
		t.end(e)
	}
	t.info.Generation = info.Generation
	t.pages.Take()
	t.journal.broken = errors.New("the log is that of an earlier generation")
	t.journal.kick(logBytes)
	return nil
}

// end ends a record: no read of it begins any more.
func (t *fileTier) end(e *entry) {
	t.table.remove(e)
	if e.readers == 0 {
		t.freeEntry(e)
	}
}

// Forget implements tier.Tier.
func (t *fileTier) Forget(ctx context.Context, at []tier.Locator) error {
	const op = "tier/file: forget"
	for some := range slices.Chunk(at, 1024) {
		t.mu.Lock()
		if t.state != running && t.state != stopping {
			t.mu.Unlock()
			return errNotRunning(op)
		}
		for _, l := range some {
			if e := t.at(l); e != nil {
				t.pages.Add(&indexlog.Event{Forget: true, Address: e.addr, Sequence: e.seq})
				t.end(e)
			}
		}
		waiting := t.pages.Len()
		t.journal.kick(waiting)
		t.mu.Unlock()
		if waiting > logLimit {
			if err := t.command(ctx, op, func() error { t.journal.write(t); return nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

// Scan implements tier.Tier. A cursor is the sequence of the last record that was found.
func (t *fileTier) Scan(_ context.Context, from tier.Cursor, dst []tier.Found) (n int, next tier.Cursor, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != running && t.state != stopping {
		return 0, from, errNotRunning("tier/file: scan")
	}
	below := from[0]
	if below == 0 {
		below = math.MaxUint64
	}
	if len(dst) == 0 {
		return 0, from, errs.New(errs.InvalidParams, "tier/file: scan", "there is no space for a record; pass at least one element")
	}
	t.table.below(below, func(e *entry) bool {
		dst[n] = tier.Found{At: t.locator(e), Record: tier.Record{
			Key: []byte(e.key), Version: e.version, Size: e.size, Summed: e.summed,
		}}
		if e.summed {
			dst[n].Record.Sum = e.sum
		}
		below = e.seq
		n++
		return n < len(dst)
	})
	return n, tier.Cursor{below}, nil
}
