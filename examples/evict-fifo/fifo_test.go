package fifo_test

import (
	"testing"

	fifo "example.com/evict-fifo"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/evicttest"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// The suite holds the policy to the contract, in process and through the wire.
func TestConformance(t *testing.T) { evicttest.Run(t, fifo.Factory()) }
func TestConformanceThroughTheWire(t *testing.T) {
	evicttest.Run(t, evicttest.ThroughWire(t, fifo.Factory()))
}

// What the suite leaves open is the policy's own business: here, that reading does not
// save an object.
func TestReadsDoNotCount(t *testing.T) {
	p, err := fifo.Factory().New(fifo.Factory().DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	var events []evict.Event
	for id := evict.ID(1); id <= 3; id++ {
		events = append(events, evict.Event{Op: evict.Insert, ID: id, Size: 10})
	}
	events = append(events, evict.Event{Op: evict.Access, ID: 1})
	if err := p.Record(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	got, err := p.Propose(t.Context(), make([]evict.Candidate, 0, 3), 20)
	if err != nil || len(got) != 2 || got[0].ID != 1 || got[1].ID != 2 {
		t.Fatalf("proposed %v, %v; want 1 and 2", got, err)
	}
}

func TestSettings(t *testing.T) {
	for n, ok := range map[int]bool{-1: false, 0: true, 1 << 24: true, 1<<24 + 1: false} {
		if err := plugin.Validate(&fifo.Config{ExpectedObjects: n}); (err == nil) != ok {
			t.Errorf("expected_objects %d: %v", n, err)
		}
	}
}
