package tierwire

import (
	"time"

	"github.com/mooncake-go/mooncake/sdk/tier"
)

// flight is an operation that was accepted and has not ended.
type flight struct {
	id          uint64
	kind        tier.Kind
	quarantined bool
	length      uint64
	regions     []uint64  // handles, one for each part
	local       [][]byte  // keeps the memory alive that the plugin uses
	due         time.Time // when it is overdue
}
