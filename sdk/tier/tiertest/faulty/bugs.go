package faulty

import (
	"bytes"
	"context"
	"slices"

	"github.com/mooncake-go/mooncake/sdk/tier"
)

// older makes a Read of the newest other version of its key with the same size.
func (w *wrapped) older(o tier.Op) tier.Op {
	for _, f := range slices.Backward(w.written) {
		if bytes.Equal(f.Record.Key, o.Record.Key) && f.Record.Size == o.Record.Size && f.Record.Version != o.Record.Version {
			o.Record, o.At = f.Record, f.At
			return o
		}
	}
	return o
}

// wrote applies the bugs of a Write. The caller holds w.mu.
func (w *wrapped) wrote(f *flight, c tier.Completion) {
	now := tier.Found{Record: f.op.Record, At: c.At}
	switch {
	case f.is(TornWrite):
		w.torn[c.At] = true
	case f.is(LostWrite):
		w.undo(c)
		return
	case f.is(MisdirectedWrite):
		for _, old := range slices.Backward(w.written) {
			if old.Record.Size == now.Record.Size {
				w.moved[old.At] = now
				break
			}
		}
	}
	w.written = append(w.written, now)
}

// wasRead applies the bugs of a Read. The caller holds w.mu.
func (w *wrapped) wasRead(f *flight, c tier.Completion) tier.Completion {
	switch {
	case f.is(BitFlip):
		f.op.Local[0][0] ^= 1
	case f.is(LateTouch):
		w.touch = f.op.Local[0]
	}
	if w.torn[f.op.At] {
		at := f.op.Offset
		for _, part := range f.op.Local {
			for i := range part {
				if at >= f.op.Record.Size/2 {
					part[i] = 0
				}
				at++
			}
		}
	}
	return c
}

// touchLate writes to a buffer that was returned to its caller.
func (w *wrapped) touchLate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.touch) > 0 {
		w.touch[0]++
		w.touch = nil
	}
}

// Forget implements tier.Tier.
func (w *wrapped) Forget(ctx context.Context, at []tier.Locator) error {
	w.mu.Lock()
	at = slices.Clone(at)
	for _, l := range at {
		w.written = slices.DeleteFunc(w.written, func(f tier.Found) bool { return f.At == l })
		if w.forgotten[l] && len(w.written) > 0 && w.plan.has(DoubleForget) {
			at = append(at, w.written[len(w.written)-1].At)
		}
		w.forgotten[l] = true
	}
	w.mu.Unlock()
	return w.Tier.Forget(ctx, at)
}
