package file

import (
	"container/list"
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/aio"
	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/extent"
	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/indexlog"
	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/record"
	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/volume"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// variant is what tests change.
type variant struct {
	fileBytes uint64 // size of a data file
	buffered  bool   // do without O_DIRECT
	anyDirect bool   // do without a copy for all aligned memory, as for memory on huge pages
	wrap      func(aio.Engine) aio.Engine
}

// state is where the tier is in its life.
type state int

const (
	created state = iota
	running
	stopping
	stopped
)

// fileTier implements tier.Tier.
type fileTier struct {
	cfg     Config
	variant variant
	starts  sync.Mutex // held by Start and by the one call of Stop that stops
	log     *slog.Logger
	host    plugin.Host
	quit    context.CancelFunc // ends a Start
	life    context.Context
	ended   chan struct{} // closed once the tier is stopped

	dir     string
	lock    *os.File
	files   *dataFiles
	engine  aio.Engine
	work    chan *piece
	workers sync.WaitGroup
	journal journal

	mu       sync.Mutex
	state    state
	info     volume.Info
	table    table
	space    extent.Space
	limit    uint64 // bytes that records may take together
	sequence uint64 // of the last write
	staging  *staging
	regions  regions
	pages    indexlog.Pages // events that the log does not have yet

	accepted int // operations of which the last completion was not reaped
	active   map[*op]struct{}
	idle     chan struct{} // closed when active is empty; exists while Stop waits
	queues   queues
	flight   flight
	wiping   bool
	faults   faults

	done  []tier.Completion
	ready chan struct{} // has an element while done may have some
}

var _ tier.Tier = (*fileTier)(nil)

func newTier(cfg Config, v variant) *fileTier {
	t := &fileTier{
		cfg: cfg, variant: v, ended: make(chan struct{}), ready: make(chan struct{}, 1),
		active: map[*op]struct{}{}, queues: queues{list.New(), list.New(), list.New()},
	}
	t.life, t.quit = context.WithCancel(context.Background())
	t.flight.oldest = map[*piece]struct{}{}
	return t
}

func errNotRunning(op string) error {
	return errs.New(errs.UnavailableInCurrentStatus, op, "the tier is not running; start it, or make another one after a stop")
}

// maxRecord returns the size of the largest record: its extent is in one file.
func (t *fileTier) maxRecord() uint64 {
	if t.info.Capacity == 0 {
		return 0
	}
	return min(record.MaxValue, (min(t.info.Capacity, t.variant.fileBytes)&^(record.Page-1))-record.Page)
}

// reserved returns how many bytes are not free: those of records, of writes in flight, and of
// extents that are out of use.
func (t *fileTier) reserved() uint64 { return t.files.capacity() - t.space.Unused()*record.Page }

// op is an accepted operation. The lock of the tier guards it, except where a field says otherwise.
type op struct {
	tier.Op        // not changed; the key is a copy
	key     string // of the record
	bytes   uint64 // of Local
	direct  bool   // the engine reads and writes Local itself
	regions []*region
	timer   *time.Timer
	queued  *list.Element
	in      *list.List
	since   time.Time // when it was accepted
	bad     bool      // the storage failed to write it, so its extent stays out of use

	// What follows is set when the first piece starts.
	entry  *entry // that a read reads
	addr   uint64 // the extent
	units  uint64
	header *record.Header // of a write: to be encoded; of a read: as it was found
	lo, hi uint64         // the range of the value that is read or written
	next   uint64         // where in it the next piece begins
	begun  bool
	head   headState
	summed uint64   // bytes of a write of which the checksum is known
	early  []*piece // those of a read that arrived before the header

	open    int // pieces that have not ended
	kernel  int // of them, those by which the kernel may touch Local
	copying int // of them, those by which a worker may touch Local
	err     error
	expired bool // the deadline passed
	ended   bool // a completion was given
	held    bool // it was Quarantined: Returned follows
}

// headState is what became of the header of a value that has several pieces.
type headState int

const (
	headWaits headState = iota
	headReady
	headSent
)

// queues are the operations with pieces that have not started.
type queues struct{ urgent, reads, writes *list.List }

// name says what the operation is, for errors.
func (o *op) name() string {
	if o.Kind == tier.Write {
		return "tier/file: write"
	}
	return "tier/file: read"
}

// piece is one read or write of the engine.
type piece struct {
	op     *op
	lo, hi uint64 // the range of the value
	head   bool   // the header is in front of it
	direct bool   // the value is in Local
	buf    []byte // staging memory: the header if there is one, then the value unless it is direct
	since  time.Time
}

// bytes returns how much the engine moves.
func (p *piece) bytes() uint64 {
	n := (p.hi - p.lo + record.Page - 1) &^ (record.Page - 1)
	if p.head {
		n += record.Page
	}
	return n
}

// staged returns how much staging memory the piece needs.
func (p *piece) staged() uint64 {
	switch {
	case !p.direct:
		return p.bytes()
	case p.head:
		return record.Page
	}
	return 0
}

// touches reports whether the kernel reads or writes Local by it.
func (p *piece) touches() bool { return p.direct && p.hi > p.lo }

// value returns the staging memory behind the header.
func (p *piece) value() []byte {
	if p.head {
		return p.buf[record.Page:]
	}
	return p.buf
}

// flight counts what is in flight and in the queues.
type flight struct {
	pieces, bytes, staged [2]uint64 // of reads and writes: pieces that started and did not end
	queued                [3]int64  // bytes that did not start: urgent reads, reads, writes
	urgent                int       // urgent reads that did not end
	oldest                map[*piece]struct{}
	rates                 [2]rate
}

// rate measures how many bytes a second the storage moves while it is busy.
type rate struct {
	busy      int
	since     time.Time
	bytes     uint64
	time      time.Duration
	perSecond float64
}

// faults counts what the storage failed.
type faults struct {
	reads, writes, damaged uint64
	recent                 []time.Time
	broken                 string // why the volume takes no more writes
}

const (
	// logEvery and logBytes are when events are appended to the log: after the first of the two.
	logEvery = 200 * time.Millisecond
	logBytes = 64 << 10
	// logSlack is how much larger than twice its live events the log becomes before it is rewritten.
	logSlack = 1 << 20
	// logLimit is how many bytes of events wait before Forget waits.
	logLimit = 64 << 20
	// rewriteBatch is how many records are rewritten with the lock held.
	rewriteBatch = 1024
)

// journal is the goroutine that writes the log and the file VOLUME, and syncs.
type journal struct {
	log      *indexlog.Log
	broken   error // the log lacks events, so it has to be rewritten
	unsynced error // a sync failed: what was written before it may be lost

	some, full chan struct{} // each has an element when there are events, or many
	commands   chan command
	quit       chan struct{}
	running    sync.WaitGroup
}

type command struct {
	do   func() error
	done chan error
}

// kick says that there are events, in so many bytes of pages.
func (j *journal) kick(bytes int) {
	c := j.some
	for {
		select {
		case c <- struct{}{}:
		default:
		}
		if bytes < logBytes || c == j.full {
			return
		}
		c = j.full
	}
}

// region is registered memory. Its fields are guarded by the lock of the tier.
type region struct {
	id        tier.RegionID
	base, end uintptr
	mem       []byte // keeps the memory alive
	huge      bool   // on huge pages, so that a device can take it in few segments
	users     int    // parts of operations that have not ended
	closing   bool
	idle      chan struct{} // of a closing one: closed when it has no users
}

// regions are the registered ones in the order of their addresses.
type regions []*region
