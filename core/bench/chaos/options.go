package chaos

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Open connects a client in this process to the pool of a master, over the network only, with the section security own. The
// caller calls done when it needs the client no more.
type Open func(ctx context.Context, master string, own config.Security) (client store.Pool, done func(context.Context) error, err error)

// Options of a run. Start from Default; sizes are in bytes.
type Options struct {
	// Program is the mooncake executable that plays every role, and Environ the environment of each
	// process.
	Program string
	Environ []string
	// From is the program of another release, with which a pool begins that is upgraded; without it those
	// faults are left out.
	From string
	Open Open
	// Security is the mode of all processes, the etcd of an election among them: off, tls or mtls. Each pool has an authority
	// of its own.
	Security string
	// Faults are names of Names, none for all.
	Faults []string
	// Rounds is how often each fault is applied, each time to a new pool.
	Rounds int
	// Keys is how many pages of PageSize are put before a fault. A store has SegmentSize.
	Keys        int
	PageSize    int
	SegmentSize uint64
	// Pause is how long a process stands still, and a link is cut.
	Pause time.Duration
	// ClientTTL is the master's setting, 0 for its default.
	ClientTTL time.Duration
	// Cells is into how many cells elected masters cut the pool.
	Cells int
	// Etcd is the program that elects one of several masters; without it those faults are left out.
	Etcd string
	// Keep makes the memory of the stores outlive their processes: in files in KeepDir, or with a keeper if that
	// is empty.
	Keep    bool
	KeepDir string
	// Balance has all keys removed at the end of a round, and checks that all memory is free then; only with Keep.
	Balance bool
	// Recovery bounds the wait for each kind of call to succeed after a fault, and Patience the time
	// after that in which a key must become readable.
	Recovery, Patience time.Duration
	// Note receives a line for each round and for each fault that is left out.
	Note func(string)
}

// Default applies each fault three times, with 1000 keys of 64 KiB.
func Default() Options {
	return Options{
		Rounds: 3, Keys: 1000, PageSize: 64 << 10, SegmentSize: 256 << 20,
		Pause: 30 * time.Second, Recovery: time.Minute, Patience: 10 * time.Second,
		Cells: 1, Etcd: "etcd", Keep: true, Note: func(string) {},
	}
}

// Validate reports the first option that cannot work.
func (o Options) Validate() error {
	refuse := func(format string, args ...any) error {
		return errs.New(errs.InvalidParams, "chaos", format, args...)
	}
	switch {
	case o.Rounds < 1 || o.Rounds > 1000:
		return refuse("%d rounds, want 1 to 1000", o.Rounds)
	case o.Keys < 1 || o.Keys > 100_000_000:
		return refuse("%d keys, want 1 to 100000000", o.Keys)
	case o.PageSize < 512 || o.PageSize > 16<<20:
		return refuse("a page of %d bytes, want 512 to %d", o.PageSize, 16<<20)
	case uint64(o.Keys)*uint64(o.PageSize) > o.SegmentSize:
		// With half of the pool free, nothing is evicted: a key that is gone was lost.
		return refuse("%d pages of %d bytes do not fit in half of the pool of two stores of %d bytes", o.Keys, o.PageSize, o.SegmentSize)
	case o.Pause <= 0 || o.Pause > 10*time.Minute:
		return refuse("a pause of %v, want more than 0 and at most 10m", o.Pause)
	case o.Cells < 1 || o.Cells > cells.Max:
		return refuse("%d cells, want 1 to %d", o.Cells, cells.Max)
	case o.ClientTTL < 0 || o.Recovery <= 0 || o.Patience <= 0:
		return refuse("times of %v, %v and %v may not be negative", o.ClientTTL, o.Recovery, o.Patience)
	}
	return errors.Join(cluster.CheckSecurity(o.Security), o.checkFaults())
}
