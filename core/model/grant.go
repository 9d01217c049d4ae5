package model

import (
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport/grant"
)

// GrantKey is a key of grants, with its number at the node.
type GrantKey struct {
	Number uint32
	Key    *grant.Key
}

// Clock is what the clock of a master showed when it answered: by it grants end. ID differs for every start of a master; 0 is
// that of a master that makes no grants.
type Clock struct {
	ID    uint64
	Shown time.Duration
}

// ReadWithoutLease is how long a grant to read lasts where the master gives no leases.
const ReadWithoutLease = time.Minute
