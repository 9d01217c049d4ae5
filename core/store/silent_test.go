package store_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// silentNodes is a pool with two nodes, of which some are silent to a client, and an object on both.
type silentNodes struct {
	*member
	ledger *ledger
	nodes  [2]*member
	mu     sync.Mutex
	silent map[string]time.Time // until when
	asked  map[string]int       // reads
}

func newSilentNodes(t *testing.T) *silentNodes {
	p, l := newLedgerPool(t)
	s := &silentNodes{ledger: l, silent: map[string]time.Time{}, asked: map[string]int{}}
	for i := range s.nodes {
		s.nodes[i] = p.member(fmt.Sprintf("n%d:1", i), memberOptions{segments: []uint64{segment}})
	}
	s.member = p.member("c:1", memberOptions{})
	require.NoError(t, s.Put(t.Context(), "k", content("k", 1000), two()))
	s.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		s.mu.Lock()
		defer s.mu.Unlock()
		if e.Kind == transport.Read {
			s.asked[e.To]++
		}
		return memtransport.Fault{Stall: time.Now().Before(s.silent[e.To])}
	})
	return s
}

// silence makes nodes silent for a time.
func (s *silentNodes) silence(d time.Duration, nodes ...*member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range nodes {
		s.silent[n.name] = time.Now().Add(d)
	}
}

// get reads the object and returns how long that took.
func (s *silentNodes) get(t *testing.T) time.Duration {
	t.Helper()
	begin := time.Now()
	got, err := s.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, content("k", 1000), got)
	return time.Since(begin)
}

// TestReadsLeaveASilentNode: a read with another copy takes that after a moment, and later reads take it
// at once; a single one asks from time to time whether the node is back. None fails, and the node is not
// reported to the master, nor backed off for reads that have to wait for it.
func TestReadsLeaveASilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSilentNodes(t)
		s.silence(10*time.Second, s.nodes[0])
		begin := time.Now()
		var work sync.WaitGroup
		var mu sync.Mutex
		waited := map[time.Duration]int{}
		for range 8 {
			work.Go(func() {
				for time.Since(begin) < 9*time.Second {
					took := s.get(t)
					mu.Lock()
					waited[took]++
					mu.Unlock()
					time.Sleep(time.Millisecond)
				}
			})
		}
		work.Wait()
		require.Len(t, waited, 2, "how long reads took")
		require.Greater(t, waited[0], 8*8000)
		// All eight can meet the silence at first. From then on one at a time does, rarely two, each after
		// twice as long: five times within the time.
		require.LessOrEqual(t, waited[memtransport.Haste], 8+2*5)
		require.Greater(t, waited[memtransport.Haste], 2)
		require.Equal(t, waited[memtransport.Haste], s.asked[s.nodes[0].name])
		require.Equal(t, waited[memtransport.Haste], s.count(t, "mooncake_client_replica_stalls_total"))
		require.Greater(t, s.count(t, "mooncake_client_replicas_avoided_total"), 1000)
		time.Sleep(5 * time.Minute)
		require.Zero(t, s.ledger.report(s.nodes[0].name).Failed)
		clear(s.asked)
		for range 400 {
			require.Zero(t, s.get(t))
			time.Sleep(time.Millisecond)
		}
		require.Greater(t, s.asked[s.nodes[0].name], 100, "it has its share again")
	})
}

// TestBothNodesAreSilent for longer than a read waits at first: it goes back to the first, and waits as
// long as one that has no other copy.
func TestBothNodesAreSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSilentNodes(t)
		s.silence(2*memtransport.Haste, s.nodes[:]...)
		require.Equal(t, 2*memtransport.Haste, s.get(t))
		require.Equal(t, 2, s.count(t, "mooncake_client_replica_stalls_total"))

		time.Sleep(5 * time.Minute)
		s.silence(time.Hour, s.nodes[:]...)
		begin := time.Now()
		_, err := s.Get(t.Context(), "k")
		require.True(t, store.IsMiss(err), "%v", err)
		require.ErrorContains(t, err, "none of 2 replicas could be read")
		require.Greater(t, time.Since(begin), 2*memtransport.Haste)
	})
}

// TestTheOnlyCopyIsWaitedFor: a node that reads have just left is no reason to give up one that has no
// other copy.
func TestTheOnlyCopyIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSilentNodes(t)
		on := one
		on.PreferredSegments = []string{s.nodes[0].name}
		require.NoError(t, s.Put(t.Context(), "only", content("only", 1000), on))
		s.silence(memtransport.Haste, s.nodes[0])
		for s.asked[s.nodes[0].name] == 0 {
			s.get(t)
		}
		_, err := s.Get(t.Context(), "only")
		require.NoError(t, err)
	})
}
