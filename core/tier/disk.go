package tier

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

const (
	// forgetTimeout bounds one call of Forget, and forgetPause is how long after one that failed the next follows.
	forgetTimeout, forgetPause = 10 * time.Second, time.Second
	// scanBatch is how many records are scanned at once.
	scanBatch = 4096
)

// Disk is a started tier together with the ledger of its segment. Safe for concurrent use.
type Disk struct {
	tier   tier.Tier
	volume tier.Volume
	log    *slog.Logger
	ops    *queue
	reaper sync.WaitGroup
	// changed says that something was written or forgotten since the last Sync.
	changed atomic.Bool
	stop    context.CancelFunc

	mu     sync.Mutex
	ledger *ledger.Log
	at     map[ledger.Put]place
	values map[ledger.Put]ledger.Put // the put of each value that is here, to that of its copy
	gone   []ledger.Put              // puts that the ledger has lost, and whose records are to be forgotten
	going  uint64                    // the bytes of their values
	wake   chan struct{}             // capacity 1: gone is not empty
	idle   chan struct{}             // closed while nothing is to be forgotten
	failed error                     // of the last Forget
	order  order
}

// place is where the record of a put lies, and the put and the size of its value.
type place struct {
	at    tier.Locator
	value ledger.Put
	size  uint64
}

// Open joins a started tier with a ledger. Where the ledger is new and the tier has records, it gets these. staging is
// memory that reads and writes use; fd is its descriptor, -1 for none. The tier stays started until after Close.
func Open(ctx context.Context, t tier.Tier, l *ledger.Log, staging []byte, fd int, log *slog.Logger) (*Disk, error) {
	if err := t.Register(ctx, tier.Region{ID: stagingRegion, Mem: staging, FD: fd}); err != nil {
		return nil, fmt.Errorf("storage tier: register the staging memory: %w", err)
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	d := &Disk{
		tier: t, volume: t.Volume(), log: log, ops: newQueue(t), stop: stop, ledger: l,
		at: map[ledger.Put]place{}, values: map[ledger.Put]ledger.Put{}, order: newOrder(), wake: make(chan struct{}, 1), idle: make(chan struct{}),
	}
	close(d.idle)
	if err := d.scan(ctx); err != nil {
		stop()
		return nil, err
	}
	d.reaper.Go(func() { d.ops.run(run) })
	d.reaper.Go(func() { d.forget(run) })
	d.Follow(l)
	return d, nil
}

// stagingRegion is the region of the staging memory.
const stagingRegion tier.RegionID = 1

// Close ends the use of the tier. When it returns an error, the tier may still touch the staging memory.
func (d *Disk) Close(ctx context.Context) error {
	d.mu.Lock()
	l := d.ledger
	d.mu.Unlock()
	l.Watch(nil)
	err := d.tier.Flush(ctx)
	err = errors.Join(err, d.tier.Deregister(ctx, stagingRegion))
	d.stop()
	d.reaper.Wait()
	return err
}

// Segment returns the segment that the volume of a tier is.
func Segment(v tier.Volume) model.SegmentID {
	return model.SegmentID{Hi: binary.BigEndian.Uint64(v.ID[:8]), Lo: binary.BigEndian.Uint64(v.ID[8:])}
}

// Volume returns what the tier opened.
func (d *Disk) Volume() tier.Volume { return d.volume }

// Len returns how many copies are here.
func (d *Disk) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.at)
}

// Has reports whether a value is here.
func (d *Disk) Has(value ledger.Put) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.values[value]
	return ok
}

// Begin says that a value is about to be written, until Over: the policy learns of values in their order.
func (d *Disk) Begin(value ledger.Put) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.order.begin(value)
}

// Over ends Begin, whether the value was written or not.
func (d *Disk) Over(value ledger.Put) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.order.over(value)
}

// Stats returns those of the tier.
func (d *Disk) Stats(ctx context.Context) (tier.Stats, error) { return d.tier.Stats(ctx) }

// MaySave reports whether something may be saved now. Where readers wait long for the storage, that is so once a second.
func (d *Disk) MaySave() bool {
	d.ops.mu.Lock()
	defer d.ops.mu.Unlock()
	return d.ops.pace.maySave(time.Now())
}

// Fits reports whether the tier can keep an object.
func (d *Disk) Fits(name string, size uint64) bool {
	return name != "" && len(name) <= tier.MaxKey && size > 0 && size <= d.volume.MaxRecord
}

// entry returns what the ledger has of a put.
func (d *Disk) entry(p ledger.Put) (ledger.Entry, error) {
	d.mu.Lock()
	l := d.ledger
	d.mu.Unlock()
	e, ok, err := l.Find(p)
	if err == nil && !ok {
		err = errs.New(errs.ObjectNotFound, "", "the ledger of the tier has no put %d", p)
	}
	return e, err
}

// record returns the record of a put. Its version is that of the value, then that of the copy.
func record(e *ledger.Entry, sum model.Checksum) tier.Record {
	return tier.Record{
		Key: []byte(e.Name), Version: tier.Version{Epoch: uint64(e.Value), Put: uint64(e.Put)}, Size: e.Size,
		Sum: uint32(sum.Value), Summed: sum.CRC32C(),
	}
}

// Write makes the record of a put that the ledger has, from the whole value in buffer, with its checksum. kept is that of
// Read. ChecksumMismatch if the bytes are damaged, NoAvailableHandle if the tier is full.
func (d *Disk) Write(ctx context.Context, p ledger.Put, sum model.Checksum, buffer *memory.Buffer) (kept bool, err error) {
	e, err := d.entry(p)
	if err != nil {
		return false, err
	}
	c, kept, err := d.ops.do(ctx, tier.Op{Kind: tier.Write, Record: record(&e, sum), Local: [][]byte{buffer.Bytes()}, Deadline: deadline(ctx)}, buffer)
	if err != nil {
		return kept, err
	}
	d.changed.Store(true)
	d.mu.Lock()
	d.at[p], d.values[e.Value] = place{c.At, e.Value, e.Size}, p
	d.order.came(saved{e.Value, p, e.Writer})
	l := d.ledger
	d.mu.Unlock()
	if _, ok, err := l.Find(p); err != nil || !ok { // It went meanwhile, and the watcher did not find the record.
		d.Settled(p, ledger.Gone, ledger.Gone)
		return kept, errs.New(errs.ObjectNotFound, "", "the object was removed while it was saved")
	}
	return kept, nil
}

// Read reads a part of the value of a put into buffer, for a reader who waits. The bytes of a whole value that has a
// checksum were verified against it. kept says that the storage may still touch the buffer, which is released when that is
// over; else the caller releases it. parent is the put that the reader reads before it, 0 for none. ObjectNotFound if there
// is no such record, UnavailableInCurrentStatus at once if it would not be read by the deadline of ctx.
func (d *Disk) Read(ctx context.Context, p, parent ledger.Put, offset uint64, buffer *memory.Buffer) (kept bool, err error) {
	e, err := d.entry(p)
	if err != nil {
		return false, err
	}
	if n := uint64(len(buffer.Bytes())); offset > e.Size || n > e.Size-offset {
		return false, errs.New(errs.InvalidParams, "", "%d bytes at %d are not part of an object of %d bytes", n, offset, e.Size)
	}
	d.mu.Lock()
	at, ok := d.at[p]
	d.order.read(p, parent)
	d.mu.Unlock()
	if !ok {
		return false, errs.New(errs.ObjectNotFound, "", "the tier has no record of put %d", p)
	}
	_, kept, err = d.ops.do(ctx, tier.Op{
		Kind: tier.Read, Record: record(&e, e.Checksum), At: at.at, Offset: offset, Local: [][]byte{buffer.Bytes()}, Urgent: true, Deadline: deadline(ctx),
	}, buffer)
	return kept, err
}

func deadline(ctx context.Context) time.Time {
	d, _ := ctx.Deadline()
	return d
}

// Follow makes a ledger that of the tier. Records that it does not have are forgotten.
func (d *Disk) Follow(l *ledger.Log) {
	d.mu.Lock()
	d.ledger = l
	d.mu.Unlock()
	l.Watch(d)
	have := l.Puts()
	d.mu.Lock()
	defer d.mu.Unlock()
	for p := range d.at {
		if have[p] == ledger.Gone {
			d.lose(p)
		}
	}
}

// Settled implements ledger.Watcher.
func (d *Disk) Settled(p ledger.Put, _, s ledger.State) {
	if s != ledger.Gone {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lose(p)
}

// lose has the record of a put forgotten. The caller holds the lock.
func (d *Disk) lose(p ledger.Put) {
	at, ok := d.at[p]
	if !ok {
		return
	}
	d.going += at.size
	if len(d.gone) == 0 {
		d.idle = make(chan struct{})
	}
	d.gone = append(d.gone, p)
	d.order.went(p)
	signal(d.wake)
}

// Settle returns once the records of all puts that are gone from the ledger are forgotten.
func (d *Disk) Settle(ctx context.Context) error {
	d.mu.Lock()
	idle := d.idle
	d.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		d.mu.Lock()
		defer d.mu.Unlock()
		return fmt.Errorf("the storage tier does not forget: %w", errors.Join(ctx.Err(), d.failed))
	}
}

// Going returns the bytes of values whose records are still to be forgotten.
func (d *Disk) Going() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.going
}

// IsSettled reports whether Settle would return at once.
func (d *Disk) IsSettled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.gone) == 0
}

// forget forgets records until ctx ends. What fails is tried again.
func (d *Disk) forget(ctx context.Context) {
	for {
		select {
		case <-d.wake:
		case <-ctx.Done():
			return
		}
		d.mu.Lock()
		puts, locators := d.gone, make([]tier.Locator, 0, len(d.gone))
		for _, p := range puts {
			locators = append(locators, d.at[p].at)
		}
		d.mu.Unlock()
		if len(puts) == 0 {
			continue // They were forgotten with the ones before.
		}
		call, cancel := context.WithTimeout(ctx, forgetTimeout)
		err := d.tier.Forget(call, locators)
		cancel()
		d.forgotten(puts, err)
		if err == nil || ctx.Err() != nil {
			continue
		}
		d.log.Error("a storage tier does not forget what was removed; the node tries again", "records", len(locators), "error", err)
		select {
		case <-time.After(forgetPause):
			signal(d.wake)
		case <-ctx.Done():
			return
		}
	}
}

func (d *Disk) forgotten(puts []ledger.Put, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed.Store(true)
	if d.failed = err; err != nil {
		return
	}
	for _, p := range puts {
		if at, ok := d.at[p]; ok && d.values[at.value] == p {
			delete(d.values, at.value)
		}
		delete(d.at, p)
	}
	d.gone, d.going = append([]ledger.Put(nil), d.gone[len(puts):]...), 0
	for _, p := range d.gone {
		d.going += d.at[p].size
	}
	if len(d.gone) == 0 {
		close(d.idle)
		return
	}
	signal(d.wake)
}

// Lost returns the puts that the ledger calls complete and of which the tier has no record.
func (d *Disk) Lost() (lost []ledger.Put) {
	d.mu.Lock()
	l := d.ledger
	d.mu.Unlock()
	all := l.Puts()
	d.mu.Lock()
	defer d.mu.Unlock()
	for p, s := range all {
		if _, ok := d.at[p]; !ok && s == ledger.Complete {
			lost = append(lost, p)
		}
	}
	return lost
}

// Name returns the name of the object of which a put is a copy; ok is false if the ledger does not have the put.
func (d *Disk) Name(p ledger.Put) (name string, ok bool) {
	e, err := d.entry(p)
	return e.Name, err == nil
}

// Sync returns when what was written and forgotten before survives a crash of the machine.
func (d *Disk) Sync(ctx context.Context) error {
	if !d.changed.Swap(false) {
		return nil
	}
	err := d.tier.Flush(ctx)
	if err != nil {
		d.changed.Store(true)
	}
	return err
}

// scan finds the records of the tier. A ledger that never had a master gets them; of any other ledger, the records count
// that it has, and the rest is forgotten.
func (d *Disk) scan(ctx context.Context) error {
	fresh := d.ledger.Fenced() == 0 && d.ledger.Len() == 0
	rebuilt := rebuild{log: d.ledger, size: d.ledger.Identity().Size}
	var strays []tier.Locator
	found := make([]tier.Found, scanBatch)
	for from := (tier.Cursor{}); ; {
		n, next, err := d.tier.Scan(ctx, from, found)
		if err != nil {
			return fmt.Errorf("storage tier: scan: %w", err)
		}
		if n == 0 {
			break
		}
		for _, f := range found[:n] {
			p := ledger.Put(f.Record.Version.Put)
			var known bool
			if fresh {
				known = rebuilt.add(&f.Record)
			} else if known, err = d.claims(p, &f.Record); err != nil {
				return err
			}
			if _, twice := d.at[p]; !known || twice {
				strays = append(strays, f.At)
				continue
			}
			value := ledger.Put(f.Record.Version.Epoch)
			d.at[p], d.values[value] = place{f.At, value, f.Record.Size}, p
		}
		from = next
	}
	err := rebuilt.flush()
	if err == nil && len(strays) > 0 {
		err = d.tier.Forget(ctx, strays)
	}
	if err == nil {
		d.log.Info("storage tier opened", "segment", Segment(d.volume).String(), "capacity", memory.Human(d.volume.Capacity), "objects", len(d.at),
			"forgotten", len(strays), "ledger_made_again", fresh && len(d.at) > 0)
	}
	return err
}

// claims reports whether the ledger has the put of a record as the record says it is.
func (d *Disk) claims(p ledger.Put, r *tier.Record) (bool, error) {
	e, ok, err := d.ledger.Find(p)
	if err != nil || !ok {
		return false, err
	}
	return e.Name == string(r.Key) && e.Size == r.Size && e.State != ledger.Writing, nil
}

// rebuild writes a ledger from records.
type rebuild struct {
	log        *ledger.Log
	size, next uint64 // of the segment, and its first free offset
	seq        ledger.Seq
	batch      ledger.Batch
	failed     error
}

const (
	// rebuildEpoch is that of a ledger made from records: the lowest one, before any master.
	rebuildEpoch ledger.Epoch = 1
	// rebuildBatch is the size of its batches, in bytes.
	rebuildBatch = 256 << 10
)

// add enters a record, and reports whether there was space.
func (r *rebuild) add(rec *tier.Record) bool {
	if r.failed != nil || rec.Size > r.size-r.next {
		return false
	}
	p, e := ledger.Put(rec.Version.Put), ledger.Ending{}
	if rec.Summed {
		e.Checksum = model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(rec.Sum)}
	}
	r.batch.Begin(p, &ledger.Object{
		Name: string(rec.Key), Size: rec.Size, Value: ledger.Put(rec.Version.Epoch), Flags: ledger.Copied, Parts: 1,
		Extents: []ledger.Extent{{Offset: r.next, Length: rec.Size}},
	})
	r.batch.Commit(p, e)
	r.next += (rec.Size + 4095) &^ 4095
	r.next = min(r.next, r.size)
	if r.batch.Size() >= rebuildBatch {
		r.failed = r.flush()
	}
	return r.failed == nil
}

func (r *rebuild) flush() error {
	if r.failed != nil || r.next == 0 {
		return r.failed
	}
	if r.seq == 0 {
		if _, err := r.log.Fence(rebuildEpoch, 0); err != nil {
			return err
		}
	}
	r.seq++
	_, err := r.log.Append(r.batch.Bytes(rebuildEpoch, r.seq))
	r.batch.Reset()
	return err
}
