package router

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// pingTimeout bounds the ping of a cell.
const pingTimeout = time.Second

// Ready implements store.Master. It answers when all cells have, or when ctx ends, and succeeds when one of them did. A cell
// that did not counts as down from then on.
func (r *Router) Ready(ctx context.Context) (string, error) {
	list := r.list()
	if len(list) == 1 {
		return list[0].master.Ready(ctx)
	}
	versions, causes := make([]string, len(list)), make([]error, len(list))
	var calls sync.WaitGroup
	for i, c := range list {
		calls.Go(func() {
			v, err := c.master.Ready(ctx)
			versions[i], causes[i] = v, c.checked(ctx, err)
		})
	}
	calls.Wait()
	for _, err := range causes { // An answer that is an error is that of the pool.
		if err != nil && !unanswered(err) && ctx.Err() == nil {
			return "", err
		}
	}
	if i := slices.Index(causes, nil); i >= 0 {
		return versions[i], nil
	}
	return "", causes[0]
}

// Ping implements store.Master. It succeeds when a cell has answered.
func (r *Router) Ping(ctx context.Context, client model.ClientID, report model.PingReport) (model.PingReply, error) {
	list := r.list()
	if len(list) == 1 {
		return list[0].master.Ping(ctx, client, report)
	}
	out := model.PingReply{Cells: make([]model.CellPing, len(list))}
	every := allDown(list)
	var calls sync.WaitGroup
	for i, c := range list {
		if err := c.state(); err != nil && !every {
			out.Cells[i].Err = err
			continue
		}
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, pingTimeout)
			defer cancel()
			sent := boottime.Time()
			reply, err := c.master.Ping(ctx, client, report)
			out.Cells[i] = model.CellPing{Status: reply.Status, Epoch: reply.Epoch, Clock: reply.Clock, Err: c.checked(ctx, err)}
			if err == nil {
				c.hear(sent, reply.Epoch)
			}
		})
	}
	calls.Wait()
	answered := false
	var failed error
	for i, c := range list {
		p := &out.Cells[i]
		switch {
		case p.Err == nil:
			answered = true
			out.Status = max(out.Status, p.Status) // ClientNeedRemount is more than ClientOK.
		case failed == nil:
			failed = p.Err
		}
		if p.Err != nil && !c.writesOff() {
			out.Partial = true
		}
	}
	if !answered {
		return model.PingReply{}, failed
	}
	out.Epoch = lowestEpoch(list)
	return out, nil
}

// MountSegment implements store.Master: a node that does not know the cells leaves it to the Router which one a segment is of.
func (r *Router) MountSegment(ctx context.Context, client model.ClientID, seg model.Segment) error {
	list := r.list()
	c := list[cells.OfSegment(seg.ID, len(list))]
	_, err := ask(ctx, c, func(ctx context.Context) (none struct{}, err error) {
		return none, c.master.MountSegment(ctx, client, seg)
	})
	return err
}

// RemountSegments implements store.Master. All cells know the client afterwards. A cell that does not answer is left out where
// no segment is its own.
func (r *Router) RemountSegments(ctx context.Context, client model.ClientID, segs []model.Segment) error {
	list := r.list()
	if len(list) == 1 {
		return list[0].master.RemountSegments(ctx, client, segs)
	}
	parts := make([][]model.Segment, len(list))
	for _, s := range segs {
		c := cells.OfSegment(s.ID, len(list))
		parts[c] = append(parts[c], s)
	}
	causes := make([]error, len(list))
	var calls sync.WaitGroup
	for i, c := range list {
		calls.Go(func() {
			_, causes[i] = ask(ctx, c, func(ctx context.Context) (none struct{}, err error) {
				return none, c.master.RemountSegments(ctx, client, parts[i])
			})
		})
	}
	calls.Wait()
	for i, err := range causes {
		if err != nil && (len(parts[i]) > 0 || !unanswered(err)) {
			return err
		}
	}
	if slices.Contains(causes, nil) {
		return nil
	}
	return causes[0]
}

// UnmountSegment implements store.Master. Whoever chose the cell of the segment, the others do not know it, which is a success.
func (r *Router) UnmountSegment(ctx context.Context, client model.ClientID, id model.SegmentID, grace time.Duration) error {
	_, err := each(ctx, r.list(), func(ctx context.Context, c *cell) (none struct{}, err error) {
		return none, c.master.UnmountSegment(ctx, client, id, grace)
	})
	return err
}

// Attach implements store.Master. With several cells it is NotSupported: a node attaches at the master of each (Masters).
func (r *Router) Attach(ctx context.Context, client model.ClientID, ledgers []model.LedgerState) (model.Attached, error) {
	if list := r.list(); len(list) == 1 {
		return list[0].master.Attach(ctx, client, ledgers)
	}
	return model.Attached{}, errNodes("attach")
}

// Report implements store.Master, as Attach.
func (r *Router) Report(ctx context.Context, client model.ClientID, report model.LedgerReport) error {
	if list := r.list(); len(list) == 1 {
		return list[0].master.Report(ctx, client, report)
	}
	return errNodes("report")
}

// Pull implements store.Master, as Attach.
func (r *Router) Pull(ctx context.Context, client model.ClientID, round uint64, acks []model.LedgerAck) (model.Pulled, error) {
	if list := r.list(); len(list) == 1 {
		return list[0].master.Pull(ctx, client, round, acks)
	}
	return model.Pulled{}, errNodes("pull")
}

// Follow implements store.Master, as Attach.
func (r *Router) Follow(ctx context.Context, address string) error {
	if list := r.list(); len(list) == 1 {
		return list[0].master.Follow(ctx, address)
	}
	return errNodes("follow")
}

// Segments implements store.Master.
func (r *Router) Segments(ctx context.Context) ([]model.SegmentInfo, error) {
	lists, err := each(ctx, r.list(), func(ctx context.Context, c *cell) ([]model.SegmentInfo, error) { return c.master.Segments(ctx) })
	if err != nil {
		return nil, err
	}
	return slices.Concat(lists...), nil
}

// QueryHosts implements store.Master.
func (r *Router) QueryHosts(ctx context.Context, clients []model.ClientID) (map[model.ClientID][]string, error) {
	list := r.list()
	if len(list) == 1 {
		return list[0].master.QueryHosts(ctx, clients)
	}
	maps, err := each(ctx, list, func(ctx context.Context, c *cell) (map[model.ClientID][]string, error) {
		return c.master.QueryHosts(ctx, clients)
	})
	if err != nil {
		return nil, err
	}
	out := map[model.ClientID][]string{}
	for _, m := range maps {
		for client, hosts := range m {
			for _, h := range hosts {
				if !slices.Contains(out[client], h) {
					out[client] = append(out[client], h)
				}
			}
		}
	}
	return out, nil
}

// CreateTask implements store.Master.
func (r *Router) CreateTask(ctx context.Context, caller model.Caller, spec model.TaskSpec) (model.TaskID, error) {
	return byKey(ctx, r, spec.Key, func(ctx context.Context, m store.Master) (model.TaskID, error) {
		return m.CreateTask(ctx, caller, spec)
	})
}

// QueryTask implements store.Master.
func (r *Router) QueryTask(ctx context.Context, id model.TaskID) (model.Task, error) {
	return first(ctx, r.list(), errs.TaskNotFound, func(ctx context.Context, m store.Master) (model.Task, error) { return m.QueryTask(ctx, id) })
}

// FetchTasks implements store.Master. It asks the cells one after the other, each time another one first. A cell that does not
// answer is left out.
func (r *Router) FetchTasks(ctx context.Context, caller model.Caller, limit int) ([]model.Assignment, error) {
	list := r.list()
	if len(list) == 1 {
		return list[0].master.FetchTasks(ctx, caller, limit)
	}
	var out []model.Assignment
	var failed error
	answered := false
	from := int(r.turn.Add(1) % uint64(len(list)))
	for _, c := range slices.Concat(list[from:], list[:from]) {
		if len(out) >= limit {
			break
		}
		got, err := ask(ctx, c, func(ctx context.Context) ([]model.Assignment, error) {
			return c.master.FetchTasks(ctx, caller, limit-len(out))
		})
		if err != nil {
			failed = err
			continue
		}
		answered = true
		out = append(out, got...)
	}
	if !answered {
		return nil, failed
	}
	return out, nil
}

// CompleteTask implements store.Master.
func (r *Router) CompleteTask(ctx context.Context, caller model.Caller, id model.TaskID, status model.TaskStatus, message string) error {
	_, err := first(ctx, r.list(), errs.TaskNotFound, func(ctx context.Context, m store.Master) (none struct{}, err error) {
		return none, m.CompleteTask(ctx, caller, id, status, message)
	})
	return err
}
