package node

import (
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/grant"
)

// segment is a range of memory that is registered and mounted by itself, or a storage tier.
type segment struct {
	model.Segment
	mem     []byte
	memory  *memory.Block      // nil for memory that a caller owns
	loan    *loan              // nil for memory of the node
	tier    *Tier              // nil for memory
	region  transport.RegionID // 0 before it is registered
	mounted bool               // the master may know it
	leaving bool               // it is being unmounted
	kept    bool               // the vault has the memory and the ledger
	ledger  *ledger.Log        // what the master has put there
	acked   ledger.Seq         // the last batch that the master may take for applied
	guard   *guard             // of mem
	grants  *grant.Book        // of mem, nil where peers need no grants
	write   time.Duration      // the longest that a master let a put write
	wiped   bool               // what the ledger had is lost
	stuck   atomic.Bool        // it did not settle in time
	// ledgerMemory is that of the ledger of a segment that is kept.
	ledgerMemory *ledgerMemory
	// cell is the one that the segment belongs to, of so many; unassigned while their number is not known.
	cell, of int
}

// loan is memory that a caller handed over, as one or several segments.
type loan struct {
	users atomic.Int32 // segments that are not freed yet
	freed func()       // called when the memory is no longer used, may be nil
}

// release ends the use of the memory. The last segment of a loan returns it.
func (s *segment) release() error {
	if s.memory != nil {
		return s.memory.Close()
	}
	if s.tier != nil {
		return nil // closeTiers ends it.
	}
	if s.loan.users.Add(-1) == 0 && s.loan.freed != nil {
		s.loan.freed()
	}
	return nil
}
