// Package dispatch moves the bytes of requests. The requests of one call to one peer are a group,
// which one goroutine runs: it cuts them into slices, chooses a path and a rail for each, submits
// them within a window of bytes, and retries slices that failed.
//
// run.go has the loop. cut.go, direct.go and fill.go submit slices; await.go and retry.go handle
// completions.
package dispatch

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer/lifetime"
	"github.com/mooncake-go/mooncake/core/transfer/peer"
	"github.com/mooncake-go/mooncake/core/transfer/region"
	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/core/transfer/settings"
)

// Dispatcher moves the bytes of requests: it groups them by their peers and runs the groups.
type Dispatcher struct {
	Cfg       *settings.Config
	LocalName string
	Peers     *peer.Table
	Regions   *region.Table
	Staging   *memory.Pool // nil where no transport needs it
	Log       *slog.Logger
	Life      *lifetime.Lifetime
	Counters
	groups sync.Pool // of *group
	calls  sync.Pool // of *call
}

// Counters counts what a dispatcher did since it was made.
type Counters struct {
	Read, Wrote, LocalCopies, Staged, Retries, Reroutes, Failovers, Quarantined atomic.Uint64
}

// Observer is the batch that some tasks belong to.
type Observer interface {
	// MovedBytes is where the bytes that arrived are counted.
	MovedBytes() *atomic.Uint64
	// Finish makes a task terminal, as Task.Finish does. It is called once for each task. What the
	// observer tells of its tasks agrees with their states at any time.
	Finish(t *request.Task, s request.State, err error, at time.Time)
}
