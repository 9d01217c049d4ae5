package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/transfer/carrier"
	"github.com/mooncake-go/mooncake/core/transfer/path"
)

// TestBoundOfASlice: silence ends an attempt where the transport can tell it from slowness, time
// elsewhere, and the deadline of the request everywhere.
func TestBoundOfASlice(t *testing.T) {
	now, silence := time.Now(), 5*time.Second
	for name, c := range map[string]struct {
		stalls      bool
		left, eta   time.Duration
		until       time.Duration
		stall, most time.Duration
	}{
		"told":             {true, time.Minute, time.Hour, time.Minute, silence, silence},
		"told, in a hurry": {true, time.Second, 0, time.Second, time.Second / 2, time.Second},
		"not told":         {false, time.Minute, 10 * time.Second, 15 * time.Second, 0, 0},
		"not told, late":   {false, 10 * time.Second, 10 * time.Second, 10 * time.Second, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := &slice{job: &job{deadline: now.Add(c.left)}, path: &path.Path{Carrier: &carrier.Carrier{Stalls: c.stalls}}}
			s.Eta = c.eta
			s.bound(now, silence)
			require.Equal(t, now.Add(c.until), s.Deadline)
			require.GreaterOrEqual(t, s.Stall, c.stall)
			require.LessOrEqual(t, s.Stall, c.most)
		})
	}
}
