package reference

import (
	"time"

	"github.com/mooncake-go/mooncake/sdk/tier"
)

// region is registered memory. users are the accepted operations that may touch it.
type region struct {
	tier.Region
	users  int
	closed bool
}

// op is an accepted operation. n.mu guards all but tier.Op and regions.
type op struct {
	tier.Op
	generation  uint64 // of the volume at Submit
	regions     []*region
	timer       *time.Timer
	began       time.Time // when a worker took it
	quarantined bool
	decided     bool // it has an outcome that a deadline does not change
}

func (o *op) age() time.Duration {
	if o.began.IsZero() {
		return 0
	}
	return max(time.Since(o.began), 1)
}
