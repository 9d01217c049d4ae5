package chaos

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/store"
)

// Options say what to run. The zero value of a field but Program, Environ and Open is a default.
type Options struct {
	// Program is the program of every process, Environ its environment.
	Program string
	Environ []string
	// Open opens a client of the pool at an address; close ends it.
	Open func(ctx context.Context, master string) (p store.Pool, closeClient func() error, err error)
	// Faults are what to apply, each to a new pool. Default: all.
	Faults []Fault
	// Rounds is how often each fault is applied. Default 1.
	Rounds int
	// Keys is how many objects a pool holds, PageSize their size in bytes. Default 1000 of 64 KiB.
	Keys, PageSize int
	// Pause is how long a stopped process stays so. Default 15 s.
	Pause time.Duration
	// ClientTTL is how long the master waits for a silent node. Default 10 s.
	ClientTTL time.Duration
	// Step is told what begins. May be nil.
	Step func(text string)
}

func (o Options) withDefaults() Options {
	if o.Faults == nil {
		o.Faults = Faults()
	}
	o.Rounds, o.Keys, o.PageSize = max(o.Rounds, 1), or(o.Keys, 1000), or(o.PageSize, 64<<10)
	o.Pause, o.ClientTTL = or(o.Pause, 15*time.Second), or(o.ClientTTL, 10*time.Second)
	if o.Step == nil {
		o.Step = func(string) {}
	}
	return o
}

func or[T int | time.Duration](v, other T) T {
	if v <= 0 {
		return other
	}
	return v
}
