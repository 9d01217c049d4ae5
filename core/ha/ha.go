// Package ha is the contract of leadership among the masters of a cluster. A backend keeps who leads
// (package etcd); the masters campaign for it (package campaign), and clients follow it (package open).
//
// The bytes of a pool do not depend on a correct election: a ledger obeys the master with the highest
// epoch that it has attached to, and a master answers for a segment only while the segment's node
// confirms it. So two masters that both believe that they lead cost a pause, never a byte. What the
// backend stores may be lost: epochs follow the clock and the ledgers then.
package ha

import (
	"context"
	"errors"

	"github.com/mooncake-go/mooncake/core/internal/boottime"
)

// View is who leads. The zero value says that no master leads.
type View struct {
	// Address is where the leader serves, host:port.
	Address string
	// Version distinguishes the leaderships of a cluster; later ones have higher versions.
	Version uint64
	// Foreign says that the leader is not a master of this program.
	Foreign bool
}

// Led reports whether a master leads.
func (v View) Led() bool { return v.Address != "" }

// ErrLed says that another master leads.
var ErrLed = errors.New("another master leads")

// Directory says who leads. Errors have codes as upstream's clients know them: UnavailableInCurrentMode
// for a backend that this program lacks, EtcdOperationError and its like for one that does not answer.
// Safe for concurrent use.
type Directory interface {
	// View asks once.
	View(ctx context.Context) (View, error)
	// Watch passes the present view to changed, and then every change, from one goroutine at a time, until
	// ctx ends. While the backend does not answer, Watch retries and passes nothing.
	Watch(ctx context.Context, changed func(View))
	// Close ends the connection and all calls. Repeatable.
	Close()
}

// Backend is a Directory in which masters campaign.
type Backend interface {
	Directory
	// Acquire makes the master that serves at address the leader. ErrLed if there is a leader.
	Acquire(ctx context.Context, address string) (Leadership, error)
	// Depose ends the leadership of a view whose master is dead. It has no effect once the view is outdated.
	Depose(ctx context.Context, view View) error
}

// Cells is a Backend of a pool that may be cut into cells (core/cells), each of which is led like a cluster.
type Cells interface {
	Backend
	// Count returns the number of cells, 0 while it is not known because no master has begun the pool.
	Count(ctx context.Context) (int, error)
	// Agree makes n the number of cells of a pool that has not begun. InvalidParams for a pool that has another number.
	Agree(ctx context.Context, n int) error
	// Cell returns the backend of the cell that is led under a name. It uses the connections of this one, and ends with it.
	Cell(cluster string) Backend
	// Join lists a master among those that run, until ctx ends, and passes them to changed, in the order of their names, at
	// first and after each change. self is asked from time to time.
	Join(ctx context.Context, self func() Member, changed func(masters []Member))
}

// Member is a master of a pool of several cells.
type Member struct {
	// Name is the address at which it serves the whole pool where it leads.
	Name string `json:"-"`
	// Admin is the address of its admin port.
	Admin string `json:"admin"`
	// Cells are what it is to each cell.
	Cells []MemberCell `json:"cells"`
}

// MemberCell is what a master is to a cell.
type MemberCell struct {
	// Address is where the master serves the cell while it leads it.
	Address string `json:"address"`
	// Follows is the version of the view whose leader it follows, 0 for none, and Segments how many segments it knows of that.
	Follows  uint64 `json:"follows,omitempty"`
	Segments int    `json:"segments,omitempty"`
}

// Leadership is that of this process. It is renewed until it is lost or resigned. Safe for concurrent use.
type Leadership interface {
	View() View
	// Epoch is higher than that of all leaderships before; Previous is that of the last one, 0 if none is known.
	Epoch() uint64
	Previous() uint64
	// Until is the time before which no other master can lead, unless this one counts as dead. It moves on
	// with each renewal. It is also past while the backend does not answer; a later renewal continues the
	// same leadership then.
	Until() boottime.Instant
	// Lost is closed when the leadership has ended for good.
	Lost() <-chan struct{}
	// Resign ends the leadership and the renewals, so that another master can lead at once. Repeatable.
	Resign(ctx context.Context) error
}
