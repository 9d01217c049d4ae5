package wheels

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func (h *history) doCopyStart(rt *rapid.T) {
	q := calls.CopyStartRequest{Client: h.client(rt), Key: h.key(rt), Tenant: tenant, Source: h.segmentName(rt)}
	for range rapid.IntRange(1, 3).Draw(rt, "targets") {
		q.Targets = append(q.Targets, h.segmentName(rt))
	}
	q.Targets = distinct(q.Targets)
	r := ask(h, calls.CopyStart, q, func(r *calls.Expected[calls.CopyStartResponse]) {
		r.Code = h.blurCopy(r.Code)
		blurOne(&r.Value.Source)
		blurList(r.Value.Targets)
	})
	if r.Code == errs.OK {
		h.copied(q.Key)
	}
}

// blurCopy leaves out what 0.3.9 says if several of these are missing.
func (h *history) blurCopy(c errs.Code) errs.Code {
	if h.v == calls.V9 && (c == errs.ObjectNotFound || c == errs.ReplicaNotFound) {
		return errs.SegmentNotFound
	}
	return c
}

func distinct(names []string) (out []string) {
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// copied remembers that an object may lie in several segments.
func (h *history) copied(key string) {
	if o := h.things[key]; o != nil {
		o.copied, o.changed = true, true
	}
}

func blurOne(d *calls.Descriptor) { d.ID, d.Buffer.Address = 0, 0 }

func (h *history) doMoveStart(rt *rapid.T) {
	q := calls.MoveStartRequest{Client: h.client(rt), Key: h.key(rt), Tenant: tenant, Source: h.segmentName(rt), Target: h.segmentName(rt)}
	r := ask(h, calls.MoveStart, q, func(r *calls.Expected[calls.MoveStartResponse]) {
		r.Code = h.blurCopy(r.Code)
		blurOne(&r.Value.Source)
		blurOne(&r.Value.Target.Value)
	})
	if r.Code == errs.OK {
		h.copied(q.Key)
	}
}

func (h *history) doCopyEnd(rt *rapid.T) {
	f := rapid.SampledFrom([]*calls.Call[calls.CopyEndRequest, calls.Expected[calls.Void]]{
		calls.CopyEnd, calls.CopyEnd, calls.MoveEnd, calls.MoveEnd, calls.CopyRevoke, calls.MoveRevoke,
	}).Draw(rt, "function")
	ask(h, f, calls.CopyEndRequest{Client: h.client(rt), Key: h.key(rt), Tenant: tenant}, nil)
}

// readable has no task made for an object that is being written, for which our master makes none.
func (h *history) readable(rt *rapid.T, key string) {
	if h.wasCopied(key) {
		rt.Skip("may be being written")
	}
	h.granting(func() {
		if ask(h, calls.GetReplicaList, calls.GetReplicaListRequest{Key: key, Tenant: tenant}, blurReplicas).Code == errs.ReplicaIsNotReady {
			rt.Skip("being written")
		}
	})
}

// oneCopy picks a key whose object lies in one segment at most, so that its task has one client that can be given it.
func (h *history) oneCopy(rt *rapid.T) string {
	key := h.key(rt)
	if o := h.things[key]; o != nil && (o.copied || o.copies > 1) {
		rt.Skip("the masters choose among its segments")
	}
	h.readable(rt, key)
	return key
}

func (h *history) doCopyTask(rt *rapid.T) {
	q := calls.CreateCopyTaskRequest{Key: h.oneCopy(rt), Tenant: tenant}
	for range rapid.IntRange(0, 3).Draw(rt, "targets") {
		q.Targets = append(q.Targets, h.segmentName(rt))
	}
	q.Targets = distinct(q.Targets)
	createTask(h, calls.CreateCopyTask, q)
}

func (h *history) doMoveTask(rt *rapid.T) {
	q := calls.CreateMoveTaskRequest{Key: h.key(rt), Tenant: tenant, Source: h.segmentName(rt), Target: h.segmentName(rt)}
	h.readable(rt, q.Key)
	createTask(h, calls.CreateMoveTask, q)
}

// createTask remembers the identifiers that the masters give a task.
func createTask[Q any](h *history, f *calls.Call[Q, calls.Expected[model.UUID]], q Q) {
	var ids []model.UUID
	r := ask(h, f, q, func(r *calls.Expected[model.UUID]) {
		ids = append(ids, r.Value)
		r.Value = model.UUID{}
	})
	if r.Code == errs.OK && !h.lost {
		h.tasks = append(h.tasks, [2]model.UUID(ids))
	}
}

// task is a task, or one that there is not.
func (h *history) task(rt *rapid.T) [2]model.UUID {
	i := rapid.IntRange(0, len(h.tasks)).Draw(rt, "task")
	if i == len(h.tasks) {
		return [2]model.UUID{{Hi: 1, Lo: h.serial}, {Hi: 1, Lo: h.serial}}
	}
	return h.tasks[i]
}

// number is the place of a task among those of a history, by either of its identifiers.
func (h *history) number(id model.UUID) uint64 {
	return uint64(slices.IndexFunc(h.tasks, func(t [2]model.UUID) bool { return t[0] == id || t[1] == id }))
}

func (h *history) doFetch(rt *rapid.T) {
	q := calls.FetchTasksRequest{Client: h.client(rt), Most: rapid.SampledFrom([]uint64{16, 16, 1, 0}).Draw(rt, "most")}
	ask(h, calls.FetchTasks, q, func(r *calls.Expected[[]calls.TaskAssignment]) {
		for i := range r.Value {
			t := &r.Value[i]
			if h.v == calls.V9 { // It names no source, and its clients fetch no tasks.
				t.Payload = sourceOfCopy.ReplaceAllString(t.Payload, "$1")
			}
			h.fetched = append(h.fetched, t.ID)
			t.ID, t.Created, t.Payload = model.UUID{Lo: h.number(t.ID)}, 0, blurPayload(t.Payload)
		}
		if len(r.Value) == 0 {
			r.Value = nil
		}
	})
}

// taskCall is a call about a task, which has another identifier at each master.
func taskCall[Q, R any](h *history, f *calls.Call[Q, R], ids [2]model.UUID, q Q, id func(*Q) *model.UUID, blur func(*R)) {
	if h.lost {
		return
	}
	r := map[*standin]*R{}
	for i, s := range []*standin{h.theirs, h.ours} {
		*id(&q) = ids[i]
		got, err := call(s, f, &q)
		if err != nil {
			h.rt.Fatal(err)
		}
		if blur != nil {
			blur(&got)
		}
		r[s] = &got
	}
	h.same(f.Name(), q, *r[h.theirs], *r[h.ours])
}

func (h *history) doQueryTask(rt *rapid.T) {
	ids := h.task(rt)
	taskCall(h, calls.QueryTask, ids, calls.QueryTaskRequest{}, func(q *calls.QueryTaskRequest) *model.UUID { return &q.Task },
		func(r *calls.Expected[calls.QueryTaskResponse]) {
			r.Value.ID, r.Value.Created, r.Value.Updated = model.UUID{}, 0, 0
		})
}

func (h *history) doComplete(rt *rapid.T) {
	q := calls.MarkTaskToCompleteRequest{Client: h.client(rt), Task: calls.TaskComplete{
		Status:  rapid.SampledFrom([]calls.TaskStatus{calls.TaskSuccess, calls.TaskSuccess, calls.TaskFailed, calls.TaskPending, calls.TaskProcessing}).Draw(rt, "status"),
		Message: "done",
	}}
	ids := h.task(rt)
	if slices.Contains(h.tasks, ids) && !slices.Contains(h.fetched, ids[0]) {
		rt.Skip("only who has fetched a task can end it")
	}
	taskCall(h, calls.MarkTaskToComplete, ids, q, func(q *calls.MarkTaskToCompleteRequest) *model.UUID { return &q.Task.ID }, nil)
}
