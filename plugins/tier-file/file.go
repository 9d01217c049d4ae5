// Package file is the tier tier/file: it keeps records in preallocated files of one folder.
//
// Below the path that it is given it makes a folder with
//
//	LOCK         locked while a process has the folder
//	VOLUME       two copies of what the volume is, of which one survives a torn write
//	data-N       the extents; each has a header of one page, then the value
//	index-N.log  which records there are
//
// A record proves itself: its header says which record it is and where it belongs, and has a
// checksum of each grain of the value. So the log is a hint that is written behind, and nothing is
// synced on the way of the bytes.
//
// An operation is cut into pieces. The lock of the tier guards what is queued and in flight;
// workers copy and compute checksums; an engine (internal/aio) reads and writes. A piece goes from
// the queue to the workers (of a write), the engine, and the workers (of a read).
package file

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/aio"
	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/extent"
	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/record"
	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/volume"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// Factory returns the factory of tier/file.
func Factory() tier.Factory {
	return tier.Define(manifest(), DefaultConfig, func(c *Config) (tier.Tier, error) {
		if err := plugin.Validate(c); err != nil {
			return nil, err
		}
		return newTier(*c, variant{fileBytes: fileBytes}), nil
	})
}

// Start implements plugin.Component.
func (t *fileTier) Start(ctx context.Context, host plugin.Host) error {
	const op = "tier/file: start"
	t.starts.Lock()
	defer t.starts.Unlock()
	t.mu.Lock()
	usable := t.state == created
	t.mu.Unlock()
	if !usable {
		return errNotRunning(op)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.life, cancel)()
	t.host, t.log = host, host.Logger()
	if err := t.open(ctx); err != nil {
		t.free()
		return errs.WithHint(errs.Wrap(errs.FileOpenFail, op+" "+t.cfg.Path, err), "check that the path exists, is writable and has space")
	}
	t.run()
	return nil
}

// open acquires everything.
func (t *fileTier) open(ctx context.Context) (err error) {
	if t.cfg.Path == "" {
		return errors.New("the setting path is empty")
	}
	if t.dir, t.lock, err = volume.Lock(t.cfg.Path); err != nil {
		return err
	}
	if err := t.openVolume(ctx); err != nil {
		return err
	}
	if t.staging, err = newStaging(t.cfg.StagingBytes); err != nil {
		return err
	}
	if err := t.files.probe(t.staging.mem); err != nil {
		return err
	}
	if err := t.openEngine(); err != nil {
		return err
	}
	if err := t.openLog(); err != nil {
		return err
	}
	for _, n := range t.files.notes {
		t.log.Warn(n, "folder", t.dir)
	}
	return ctx.Err()
}

// openVolume reads what the volume is, or makes one, and has its files ready.
func (t *fileTier) openVolume(ctx context.Context) error {
	v, err := volume.Read(t.dir)
	fresh := errors.Is(err, volume.ErrNone)
	if err != nil && !fresh {
		return err
	}
	if fresh {
		t.log.Info("makes a volume", "folder", t.dir, "reason", err)
		v = volume.New(0)
	}
	want := t.cfg.Capacity
	if want == 0 {
		want = v.Capacity
	}
	if want == 0 {
		if want, err = free(t.dir); err != nil {
			return err
		}
	}
	files, err := openFiles(ctx, t.dir, want, t.variant.fileBytes, !t.variant.buffered)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files = files
	if c := t.files.capacity(); c == 0 {
		return fmt.Errorf("no space for a data file of %d bytes in %s", want, t.dir)
	} else {
		v.Capacity = c
	}
	if err := volume.Write(t.dir, &v); err != nil {
		return err
	}
	// No start uses the sequences of another one, although the log may lack the last of them.
	t.info, t.limit, t.sequence = v, v.Capacity, v.Writes<<32
	return nil
}

// openEngine opens the engine that the setting names.
func (t *fileTier) openEngine() (err error) {
	name, reason := IOPread, "the setting io is "+IOPread
	if t.cfg.IO != IOPread {
		t.engine, err = aio.NewRing()
		switch {
		case err == nil:
			name, reason = IORing, ""
		case t.cfg.IO == IORing:
			return fmt.Errorf("%w; set io to %s to do without", err, IOAuto)
		default:
			reason = err.Error()
			t.log.Warn("io_uring is not available: threads read and write, which is slower from 8 operations on", "error", err)
		}
	}
	if name == IOPread {
		t.engine = aio.NewPool()
	}
	t.log.Info("opened the volume", "folder", t.dir, "capacity", t.limit, "io", name, "reason", reason,
		"direct", t.files.direct, "staging", t.staging.pages)
	if t.variant.wrap != nil {
		t.engine = t.variant.wrap(t.engine)
	}
	return nil
}

// run starts the goroutines.
func (t *fileTier) run() {
	t.work = make(chan *piece, maxReads+maxWrites)
	for range min(4, max(2, runtime.GOMAXPROCS(0)/2)) {
		t.workers.Go(func() {
			for p := range t.work {
				t.handle(p)
			}
		})
	}
	t.journal.start(t)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state = running
}

// free gives up what open acquired.
func (t *fileTier) free() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.engine != nil {
		_ = t.engine.Close(context.Background()) // Nothing was submitted.
	}
	t.journal.close()
	if t.staging != nil {
		_ = t.staging.free()
	}
	if t.files != nil {
		t.files.close()
	}
	if t.lock != nil {
		t.lock.Close()
	}
	t.engine, t.staging, t.files, t.lock = nil, nil, nil, nil
	t.table, t.space = table{}, extent.Space{}
}

// Volume implements tier.Tier.
func (t *fileTier) Volume() tier.Volume {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := tier.Volume{ID: t.info.ID, Generation: t.info.Generation, Capacity: t.info.Capacity, Align: record.Page}
	v.MaxRecord = t.maxRecord()
	return v
}

// Space implements tier.Tier.
func (t *fileTier) Space(r tier.Record) uint64 { return units(r.Size) * record.Page }

// Stats implements tier.Tier.
func (t *fileTier) Stats(context.Context) (tier.Stats, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.files == nil {
		return tier.Stats{}, errNotRunning("tier/file: stats")
	}
	s := tier.Stats{
		Used: t.table.used, Records: uint64(t.table.live()), Capacity: t.limit,
		ReadErrors: t.faults.reads, WriteErrors: t.faults.writes, Damaged: t.faults.damaged,
	}
	if most := min(t.space.Largest()*record.Page, t.limit-min(t.limit, t.reserved())); most > record.Page {
		s.LargestFree = min(most-record.Page, t.maxRecord())
	}
	for p := range t.flight.oldest {
		s.Oldest = max(s.Oldest, time.Since(p.since))
	}
	return s, nil
}

// handle is what a worker does with a piece.
func (t *fileTier) handle(p *piece) {
	if p.op.Kind == tier.Write {
		t.prepare(p)
	} else {
		t.verify(p)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pump()
}
