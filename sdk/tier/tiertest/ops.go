package tiertest

import (
	"context"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// submit submits all operations, with new IDs, and reaps what it has to. It returns the IDs and the
// completions that came meanwhile.
func (s *subject) submit(ops ...tier.Op) (ids []uint64, early []tier.Completion) {
	ctx := s.within()
	ops = slices.Clone(ops)
	for i := range ops {
		ops[i].ID = s.ids.Add(1)
		ids = append(ids, ops[i].ID)
	}
	for len(ops) > 0 {
		n, err := s.tier.Submit(ops)
		require.NoError(s.t, err, "Submit")
		require.LessOrEqual(s.t, n, len(ops))
		if ops = ops[n:]; n == 0 {
			early = append(early, s.reap(ctx, 64)...)
		}
	}
	return ids, early
}

// reap waits for completions, at most limit of them.
func (s *subject) reap(ctx context.Context, limit int) []tier.Completion {
	dst := make([]tier.Completion, limit)
	n, err := s.tier.Reap(ctx, dst)
	require.NoError(s.t, err, "Reap")
	require.Positive(s.t, n, "Reap returned nothing, and no error")
	return dst[:n]
}

// do runs operations to their end and returns their completions, in the order of ops. Those that were
// Quarantined have been Returned.
func (s *subject) do(ops ...tier.Op) []tier.Completion {
	ids, early := s.submit(ops...)
	return s.finish(ops, ids, early)
}

func (s *subject) finish(ops []tier.Op, ids []uint64, early []tier.Completion) []tier.Completion {
	ctx := s.within()
	out := make([]tier.Completion, len(ids))
	place := map[uint64]int{}
	for i, id := range ids {
		place[id] = i
	}
	owed := map[uint64]tier.Status{} // What came last of those that have not ended.
	for _, id := range ids {
		owed[id] = 0
	}
	for got := early; ; got = s.reap(ctx, 64) {
		for _, c := range got {
			last, open := owed[c.ID]
			require.True(s.t, open, "the completion of operation %d, which is not in flight", c.ID)
			if last == tier.Quarantined {
				require.Equal(s.t, tier.Returned, c.Status, "after Quarantined")
				require.NoError(s.t, c.Err)
				delete(owed, c.ID)
				continue
			}
			wellFormed(s.t, ops[place[c.ID]], c)
			out[place[c.ID]] = c
			if owed[c.ID] = c.Status; c.Status != tier.Quarantined {
				delete(owed, c.ID)
			}
		}
		if len(owed) == 0 {
			return out
		}
	}
}

// codes are those that a completion may carry, by the kind of operation.
var codes = map[tier.Kind][]errs.Code{
	tier.Read:  {errs.ObjectNotFound, errs.ChecksumMismatch, errs.FileReadFail, errs.RPCTimeout, errs.UnavailableInCurrentStatus},
	tier.Write: {errs.ChecksumMismatch, errs.NoAvailableHandle, errs.FileWriteFail, errs.RPCTimeout, errs.UnavailableInCurrentStatus},
}

// wellFormed checks what holds for every first completion.
func wellFormed(t require.TestingT, o tier.Op, c tier.Completion) {
	if c.Status == tier.OK {
		require.NoError(t, c.Err)
		require.Equal(t, o.Kind == tier.Write, c.At != tier.Locator{}, "a Write that is OK has a locator, a Read has none")
		require.False(t, c.Verified && o.Kind == tier.Write, "a Write is not verified")
		return
	}
	require.Contains(t, []tier.Status{tier.Failed, tier.Quarantined}, c.Status)
	require.False(t, c.Verified)
	require.Equal(t, tier.Locator{}, c.At, "there is no record")
	require.Contains(t, codes[o.Kind], errs.CodeOf(c.Err), "%v", c.Err)
	switch errs.CodeOf(c.Err) {
	case errs.ObjectNotFound, errs.ChecksumMismatch:
		require.Equal(t, errs.ClassPermanent, errs.ClassOf(c.Err), "%v", c.Err)
	case errs.FileReadFail, errs.FileWriteFail:
		require.Contains(t, []errs.Class{errs.ClassPermanent, errs.ClassLocalDevice}, errs.ClassOf(c.Err), "%v", c.Err)
	}
}
