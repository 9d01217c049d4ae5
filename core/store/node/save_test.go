package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/model"
)

// TestFewPromotionsAtATime: a node brings as many objects back at the same time as the master says, and saves others meanwhile.
func TestFewPromotionsAtATime(t *testing.T) {
	memory, tier := &segment{}, &segment{tier: &Tier{}}
	s := &saver{room: make(chan struct{}, 1)}
	s.policy.Store(&model.TierPolicy{QueueLimit: 10, PromoteMost: 2})
	take := func() (puts []ledger.Put) {
		for x, ok := s.next(); ok; x, ok = s.next() {
			puts = append(puts, x.put)
		}
		return puts
	}
	for p := range ledger.Put(4) {
		s.add(saving{tier, p})
	}
	s.add(saving{memory, 4})
	s.add(saving{memory, 5})
	require.Equal(t, []ledger.Put{0, 1, 4, 5}, take())
	<-s.room
	s.did(saving{memory, 4})
	require.Empty(t, take())
	require.Empty(t, s.room)
	s.did(saving{tier, 0})
	require.Len(t, s.room, 1, "a worker looks again")
	require.Equal(t, []ledger.Put{2}, take())
	s.policy.Store(&model.TierPolicy{QueueLimit: 10})
	require.Equal(t, []ledger.Put{3}, take(), "a master of an earlier release names no number")
}

// TestWhatIsPutIsNotSavedThen: a node whose master wants what eviction chooses forgets what waits since it was put, and takes what
// the ledger calls complete again.
func TestWhatIsPutIsNotSavedThen(t *testing.T) {
	memory, tier := &segment{}, &segment{tier: &Tier{}}
	s := &saver{room: make(chan struct{}, 1)}
	s.policy.Store(&model.TierPolicy{QueueLimit: 10})
	w := watcher{s, memory}
	w.Settled(1, ledger.Writing, ledger.Complete)
	s.add(saving{tier, 2})
	require.Equal(t, []saving{{memory, 1}, {tier, 2}}, s.queue)
	s.obey(&model.TierPolicy{QueueLimit: 10, OnEvict: true})
	require.Equal(t, []saving{{tier, 2}}, s.queue)
	w.Settled(3, ledger.Gone, ledger.Complete)
	w.Settled(4, ledger.Complete, ledger.Complete)
	w.Settled(5, ledger.Complete, ledger.Held)
	s.obey(&model.TierPolicy{QueueLimit: 10, OnEvict: true})
	require.Equal(t, []saving{{tier, 2}, {memory, 4}}, s.queue)
}
