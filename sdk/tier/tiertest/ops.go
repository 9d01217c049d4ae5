package tiertest

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/expect"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
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
		s.known.Store(ops[i].ID, ops[i])
		s.note("%s", opText(ops[i]))
	}
	for len(ops) > 0 {
		n, err := s.tier.Submit(ops)
		expect.NoError(s.t, err, "Submit of %d operations, the first a %s,", len(ops), opText(ops[0]))
		expect.LessOrEqual(s.t, n, len(ops), "the number of operations that Submit accepts")
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
	expect.NoError(s.t, err, "Reap")
	expect.Positive(s.t, n, "Reap returned nothing, and no error")
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
	for got := early; ; got = s.reapOf(ctx, owed) {
		for _, c := range got {
			last, open := owed[c.ID]
			expect.True(s.t, open, "%s completes with %s, and it is not in flight", s.op(c.ID), c.Status)
			if last == tier.Quarantined {
				expect.Equal(s.t, tier.Returned, c.Status, "%s was Quarantined, and then", s.op(c.ID))
				expect.NoError(s.t, c.Err)
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
		expect.NoError(t, c.Err)
		expect.Equal(t, o.Kind == tier.Write, c.At != tier.Locator{}, "a Write that is OK has a locator, a Read has none")
		expect.False(t, c.Verified && o.Kind == tier.Write, "a Write is not verified")
		return
	}
	expect.Among(t, []tier.Status{tier.Failed, tier.Quarantined}, c.Status)
	expect.False(t, c.Verified)
	expect.Equal(t, tier.Locator{}, c.At, "there is no record")
	expect.Among(t, codes[o.Kind], errs.CodeOf(c.Err), "%v", c.Err)
	switch errs.CodeOf(c.Err) {
	case errs.ObjectNotFound, errs.ChecksumMismatch:
		expect.Equal(t, errs.ClassPermanent, errs.ClassOf(c.Err), "%v", c.Err)
	case errs.FileReadFail, errs.FileWriteFail:
		expect.Among(t, []errs.Class{errs.ClassPermanent, errs.ClassLocalDevice}, errs.ClassOf(c.Err), "%v", c.Err)
	}
}

// reapOf is reap for operations that are owed a completion. It says which are, when none comes.
func (s *subject) reapOf(ctx context.Context, owed map[uint64]tier.Status) []tier.Completion {
	dst := make([]tier.Completion, 64)
	n, err := s.tier.Reap(ctx, dst)
	if err != nil && ctx.Err() != nil {
		missing := slices.Sorted(maps.Keys(owed))
		expect.NoError(s.t, err, "Reap: %d completions are missing after %v, the first that of %s", len(missing), s.patience, s.op(missing[0]))
	}
	expect.NoError(s.t, err, "Reap")
	expect.Positive(s.t, n, "Reap returned no completion and no error")
	return dst[:n]
}

// op describes an operation in a failure.
func (s *subject) op(id uint64) string {
	if o, known := s.known.Load(id); known {
		return fmt.Sprintf("operation %d (%s)", id, opText(o.(tier.Op))) //nolint:forcetypeassert // submit stored it.
	}
	return fmt.Sprintf("operation %d, which was never submitted,", id)
}

func opText(o tier.Op) string {
	n := 0
	for _, part := range o.Local {
		n += len(part)
	}
	key := keyText(o.Record.Key)
	if o.Kind == tier.Read {
		return fmt.Sprintf("Read of %d bytes at %d of key %s, version %d.%d", n, o.Offset, key, o.Record.Version.Epoch, o.Record.Version.Put)
	}
	return fmt.Sprintf("%s of %d bytes of key %s, version %d.%d", o.Kind, n, key, o.Record.Version.Epoch, o.Record.Version.Put)
}

// ok requires that an operation succeeded.
func (s *subject) ok(c tier.Completion, about ...any) {
	if c.Status == tier.OK {
		return
	}
	if len(about) > 0 {
		expect.True(s.t, false, "%s: %s ends with %s, and should end with OK: %v", fmt.Sprintf(about[0].(string), about[1:]...), s.op(c.ID), c.Status, c.Err) //nolint:forcetypeassert // It is a format.
	}
	expect.True(s.t, false, "%s ends with %s, and should end with OK: %v", s.op(c.ID), c.Status, c.Err)
}

// note adds a call to the sequence of calls of which this is a part, if any.
func (s *subject) note(format string, args ...any) {
	if seq, ok := s.t.(*rig.Sequence); ok {
		seq.Note(format, args...)
	}
}

// keyText names a key, a long one by its length.
func keyText(key []byte) string {
	if len(key) > 40 {
		return fmt.Sprintf("of %d bytes", len(key))
	}
	return fmt.Sprintf("%q", key)
}
