package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/model"
)

func newTestSaver(policy *model.TierPolicy) *saver {
	s := new(saver)
	s.news, s.limit = make(chan struct{}, 1), func() uint64 { return s.policy.Load().QueueLimit }
	s.most = func() int { return int(s.policy.Load().PromoteMost) }
	s.policy.Store(policy)
	return s
}

func of(from *segment, p ledger.Put) copying { return copying{saving: saving{from, p}} }

// TestFewPromotionsAtATime: a node brings as many objects back at the same time as the master says, and saves others meanwhile.
func TestFewPromotionsAtATime(t *testing.T) {
	memory, tier := &segment{}, &segment{tier: &Tier{}}
	s := newTestSaver(&model.TierPolicy{QueueLimit: 10, PromoteMost: 2})
	take := func() (puts []ledger.Put) {
		for x, ok := s.next(); ok; x, ok = s.next() {
			puts = append(puts, x.put)
		}
		return puts
	}
	for p := range ledger.Put(4) {
		s.add(of(tier, p))
	}
	s.add(of(memory, 4))
	s.add(of(memory, 5))
	require.Equal(t, []ledger.Put{0, 1, 4, 5}, take())
	<-s.news
	s.did(of(memory, 4))
	require.Empty(t, take())
	require.Empty(t, s.news)
	s.did(of(tier, 0))
	require.Len(t, s.news, 1, "a worker looks again")
	require.Equal(t, []ledger.Put{2}, take())
	s.policy.Store(&model.TierPolicy{QueueLimit: 10})
	require.Equal(t, []ledger.Put{3}, take(), "a master of an earlier release names no number")
}

// TestWhatIsPutIsNotSavedThen: a node whose master wants what eviction chooses forgets what waits since it was put, and takes what
// the ledger calls complete again.
func TestWhatIsPutIsNotSavedThen(t *testing.T) {
	memory, tier := &segment{}, &segment{tier: &Tier{}}
	s := newTestSaver(&model.TierPolicy{QueueLimit: 10})
	w := watcher{s, memory}
	w.Settled(1, ledger.Writing, ledger.Complete)
	s.add(of(tier, 2))
	require.Equal(t, []copying{of(memory, 1), of(tier, 2)}, s.queue)
	s.obey(&model.TierPolicy{QueueLimit: 10, OnEvict: true})
	require.Equal(t, []copying{of(tier, 2)}, s.queue)
	w.Settled(3, ledger.Gone, ledger.Complete)
	w.Settled(4, ledger.Complete, ledger.Complete)
	w.Settled(5, ledger.Complete, ledger.Held)
	s.obey(&model.TierPolicy{QueueLimit: 10, OnEvict: true})
	require.Equal(t, []copying{of(tier, 2), of(memory, 4)}, s.queue)
}
