//go:build !race

package grant

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestCheckAllocatesNothing bounds the cost of an operation.
func TestCheckAllocatesNothing(t *testing.T) {
	b, e := NewBook(func() time.Duration { return 0 }), new(Clock)
	e.Hear(0, 0, 0)
	entry := b.Add(Role{Clock: e})
	s, by := NewSealer(entry.Number, entry.Key), SubjectOf("a")
	var g transport.Grant
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		s.Seal(&g, Claim{transport.Read, 0, 10, time.Second}, by)
		if b.Check(&g, by, transport.Read, 0, 10) != transport.GrantGood {
			t.Fatal("refused")
		}
	}))
}
