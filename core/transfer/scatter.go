package transfer

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Range is many fragments between one range of local memory and one range of a peer's.
type Range struct {
	Kind transport.OpKind
	// Peer is the name under which the other side published itself; [Base, Base+Size) is the range
	// of its memory.
	Peer       string
	Base, Size uint64
	// Local is this side's memory; the rules of Request.Local hold.
	Local []byte
	// Fragment i is Lengths[i] bytes between Local[LocalOffsets[i]:] and Base+RemoteOffsets[i]. The
	// three are of one length; SubmitScatter does not keep them.
	LocalOffsets, RemoteOffsets, Lengths []uint64
	// Done, where set, is called once for each fragment, in the order in which they end and from
	// several goroutines, before Wait returns. It must not block, and not call the Scatter.
	Done func(fragment int, s request.Status)
}

// Scatter is the fragments of some ranges in flight. Safe for concurrent use.
type Scatter struct {
	b      *Batch
	ranges []rangeTasks // one for each Range
}

// rangeTasks is the fragments of one range.
type rangeTasks struct {
	done    func(int, request.Status)
	tasks   []int // by fragment; -1 for a refused one
	refused map[int]error
}

// SubmitScatter starts all fragments. An invalid one does not keep others from moving: its state is
// Invalid. It returns at once. The error is for too many fragments, about a million, and for a
// closed engine. The caller closes the Scatter.
func (e *Engine) SubmitScatter(ranges []Range) (*Scatter, error) {
	s := &Scatter{ranges: make([]rangeTasks, len(ranges))}
	var reqs []request.Request
	for i := range ranges {
		reqs = s.add(&ranges[i], &s.ranges[i], reqs)
	}
	b, err := e.NewBatch(max(len(reqs), 1))
	if err != nil {
		return nil, err
	}
	s.b = b
	where := make([][2]int, 0, len(reqs))
	for r := range s.ranges {
		for f, task := range s.ranges[r].tasks {
			if task >= 0 {
				where = append(where, [2]int{r, f})
			}
		}
	}
	b.hook = func(index int, status request.Status) {
		at := where[index]
		if done := s.ranges[at[0]].done; done != nil {
			done(at[1], status)
		}
	}
	// Checked by add: only a closed engine refuses now.
	for i, got := range b.Submit(reqs) {
		if got.Err != nil {
			at := where[i]
			s.ranges[at[0]].refuse(at[1], got.Err)
		}
	}
	for r := range s.ranges {
		for f, err := range s.ranges[r].refused {
			if done := s.ranges[r].done; done != nil {
				done(f, invalid(err))
			}
		}
	}
	return s, nil
}

// TransferScatter is SubmitScatter and Wait in one call. When the context ends it cancels the
// fragments that are not done, and returns when no memory is touched any more, as Close does.
func (e *Engine) TransferScatter(ctx context.Context, ranges []Range) error {
	s, err := e.SubmitScatter(ranges)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Wait(ctx)
}

// add appends the requests of a range.
func (s *Scatter) add(r *Range, to *rangeTasks, reqs []request.Request) []request.Request {
	n := max(len(r.Lengths), len(r.LocalOffsets), len(r.RemoteOffsets))
	*to = rangeTasks{done: r.Done, tasks: make([]int, n)}
	for i := range n {
		q, err := r.fragment(i)
		if err != nil {
			to.refuse(i, err)
			continue
		}
		to.tasks[i] = len(reqs)
		reqs = append(reqs, q)
	}
	return reqs
}

func (p *rangeTasks) refuse(i int, err error) {
	if p.refused == nil {
		p.refused = map[int]error{}
	}
	p.tasks[i], p.refused[i] = -1, err
}

// fragment is the request of one fragment.
func (r *Range) fragment(i int) (request.Request, error) {
	bad := func(format string, args ...any) (request.Request, error) {
		return request.Request{}, errs.New(errs.InvalidParams, "transfer: scatter", format, args...)
	}
	if len(r.Lengths) != len(r.LocalOffsets) || len(r.Lengths) != len(r.RemoteOffsets) {
		return bad("%d lengths, %d local and %d remote offsets do not go together", len(r.Lengths), len(r.LocalOffsets), len(r.RemoteOffsets))
	}
	n, local, remote := r.Lengths[i], r.LocalOffsets[i], r.RemoteOffsets[i]
	switch have := uint64(len(r.Local)); {
	case local > have || n > have-local:
		return bad("fragment %d: %d bytes at %d are not in %d bytes of local memory", i, n, local, have)
	case remote > r.Size || n > r.Size-remote:
		return bad("fragment %d: %d bytes at %d are not in the peer's %d bytes", i, n, remote, r.Size)
	case r.Base+r.Size < r.Base:
		return bad("%d bytes at address %#x run over the end of the address space", r.Size, r.Base)
	}
	q := request.Request{Kind: r.Kind, Local: r.Local[local : local+n : local+n], Peer: r.Peer, Addr: r.Base + remote}
	return q, q.Validate()
}

func invalid(err error) request.Status { return request.Status{State: request.Invalid, Err: err} }

// Status tells how far a fragment of a range is. InvalidParams for one that is not there.
func (s *Scatter) Status(r, fragment int) (request.Status, error) {
	if r < 0 || r >= len(s.ranges) || fragment < 0 || fragment >= len(s.ranges[r].tasks) {
		return request.Status{}, errs.New(errs.InvalidParams, "transfer: status", "range %d has no fragment %d", r, fragment)
	}
	p := &s.ranges[r]
	if p.tasks[fragment] < 0 {
		return invalid(p.refused[fragment]), nil
	}
	return s.b.Status(p.tasks[fragment])
}

// Wait waits until every fragment is terminal, at most until the context ends, which cancels
// nothing. It returns the error of the first fragment that is not completed, in their order.
func (s *Scatter) Wait(ctx context.Context) error {
	if err := s.b.Wait(ctx); err != nil {
		return err
	}
	for r := range s.ranges {
		for f := range s.ranges[r].tasks {
			if st, err := s.Status(r, f); err != nil || st.Err != nil {
				return errs.Wrap(errs.CodeOf(st.Err), "transfer: scatter", st.Err)
			}
		}
	}
	return nil
}

// WaitFor is Wait with a time limit.
func (s *Scatter) WaitFor(d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return s.Wait(ctx)
}

// Cancel is that of Batch.
func (s *Scatter) Cancel() { s.b.Cancel() }

// Close cancels the fragments that are not done and returns when no memory is touched any more, but
// for fragments that are quarantined. Repeatable.
func (s *Scatter) Close() {
	s.b.Cancel()
	<-s.b.Done()
	_ = s.b.Free() // It fails only for a Scatter that was closed before: nothing is in flight.
}
