package drain

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// object is an object of the fake pool. Its place in the universe of names is fixed.
type object struct {
	copies  map[string]bool // names of segments
	size    uint64
	blocked string
}

// fake is a pool of a few segments and objects. complain is called when the engine does
// what it may not.
type fake struct {
	complain func(format string, args ...any)
	segments map[string]model.SegmentStatus
	full     map[string]bool
	names    []string // of all objects there may be
	objects  map[string]*object
	tasks    map[model.TaskID]*model.Task
	order    []model.TaskID
	refuse   error // what StartMove says
	forget   bool  // tasks that ended are not remembered
	page     int
	calls    int // of Units
}

func newFake(complain func(string, ...any), segments ...string) *fake {
	f := &fake{
		complain: complain, segments: map[string]model.SegmentStatus{}, full: map[string]bool{}, objects: map[string]*object{},
		tasks: map[model.TaskID]*model.Task{}, page: 2,
	}
	for _, s := range segments {
		f.segments[s] = model.SegmentOK
	}
	return f
}

func (f *fake) put(key string, size uint64, copies ...string) *object {
	o := &object{copies: map[string]bool{}, size: size}
	for _, s := range copies {
		o.copies[s] = true
	}
	if !slices.Contains(f.names, key) {
		f.names = append(f.names, key)
	}
	f.objects[key] = o
	return o
}

func (f *fake) on(segment string) (n int) {
	for _, o := range f.objects {
		if o.copies[segment] {
			n++
		}
	}
	return n
}

func (f *fake) unmount(segment string) {
	delete(f.segments, segment)
	for key, o := range f.objects {
		if delete(o.copies, segment); len(o.copies) == 0 {
			delete(f.objects, key)
		}
	}
}

// finish carries a task out, or fails it with a message.
func (f *fake) finish(id model.TaskID, failure string) {
	t := f.tasks[id]
	o := f.objects[t.Spec.Key]
	target := t.Spec.Targets[0]
	if failure == "" && (o == nil || !o.copies[t.Spec.Source]) {
		failure = "OBJECT_NOT_FOUND"
	}
	if _, mounted := f.segments[target]; failure == "" && !mounted {
		failure = "SEGMENT_NOT_FOUND"
	}
	t.Status, t.Message = model.TaskFailed, failure
	if failure == "" {
		t.Status = model.TaskSuccess
		delete(o.copies, t.Spec.Source)
		o.copies[target] = true
	}
	f.order = slices.DeleteFunc(f.order, func(x model.TaskID) bool { return x == id })
	if f.forget {
		delete(f.tasks, id)
	}
}

func (f *fake) finishAll(failure string) {
	for len(f.order) > 0 {
		f.finish(f.order[0], failure)
	}
}

func (f *fake) Exists(s string) bool { return f.segments[s] != 0 }

func (f *fake) SetDraining(segments []string) error {
	for _, s := range segments {
		if f.segments[s] != model.SegmentOK {
			return errs.New(errs.UnavailableInCurrentStatus, "drain", "segment %s is %s", s, f.segments[s])
		}
	}
	for _, s := range segments {
		f.segments[s] = model.SegmentDraining
	}
	return nil
}

func (f *fake) StillDraining(s string) error {
	switch f.segments[s] {
	case model.SegmentDraining:
		return nil
	case 0:
		return errs.New(errs.SegmentNotFound, "segment", "it is mounted no more")
	}
	return errs.New(errs.UnavailableInCurrentStatus, "segment", "it is %s", f.segments[s])
}

func (f *fake) SetDrained(segments []string) {
	for _, s := range segments {
		if n := f.on(s); n > 0 {
			f.complain("segment %s is called drained with %d objects on it", s, n)
		}
		f.leave(s, model.SegmentDrained)
	}
}

func (f *fake) SetOK(segments []string) {
	for _, s := range segments {
		f.leave(s, model.SegmentOK)
	}
}

func (f *fake) leave(s string, to model.SegmentStatus) {
	if f.segments[s] == model.SegmentDraining {
		f.segments[s] = to
	}
}

func (f *fake) Units(segment string, cursor uint64, dst []Unit) ([]Unit, uint64) {
	f.calls++
	for range f.page {
		if cursor >= uint64(len(f.names)) {
			return dst, 0
		}
		key := f.names[cursor]
		if o := f.objects[key]; o != nil && o.copies[segment] {
			dst = append(dst, Unit{Tenant: "default", Key: key, Size: o.size, Blocked: o.blocked})
		}
		cursor++
	}
	if cursor == uint64(len(f.names)) {
		cursor = 0
	}
	return dst, cursor
}

func (f *fake) Target(segment string, u Unit, candidates []string) (string, bool) {
	for _, s := range slices.Sorted(maps.Keys(f.segments)) {
		free := f.segments[s] == model.SegmentOK && !f.full[s] && s != segment
		if o := f.objects[u.Key]; o != nil && free && !o.copies[s] && (len(candidates) == 0 || slices.Contains(candidates, s)) {
			return s, true
		}
	}
	return "", false
}

func (f *fake) StartMove(spec model.TaskSpec) (model.TaskID, error) {
	if f.refuse != nil {
		return model.TaskID{}, f.refuse
	}
	o := f.objects[spec.Key]
	switch {
	case o == nil:
		return model.TaskID{}, errs.New(errs.ObjectNotFound, "move", "no object %q", spec.Key)
	case !o.copies[spec.Source]:
		return model.TaskID{}, errs.New(errs.ReplicaNotFound, "move", "no copy there")
	case spec.Kind != model.MoveObject || len(spec.Targets) != 1 || f.segments[spec.Targets[0]] != model.SegmentOK:
		f.complain("a wrong move: %+v", spec)
	case f.segments[spec.Source] != model.SegmentDraining:
		f.complain("moved from %s, which is %s", spec.Source, f.segments[spec.Source])
	}
	for _, id := range f.order {
		if f.tasks[id].Spec.Key == spec.Key {
			return model.TaskID{}, errs.New(errs.ObjectHasReplicationTask, "move", "%q is being moved", spec.Key)
		}
	}
	id := model.NewUUID()
	f.tasks[id] = &model.Task{ID: id, Spec: spec}
	f.order = append(f.order, id)
	return id, nil
}

func (f *fake) Move(id model.TaskID) (model.Task, error) {
	if t := f.tasks[id]; t != nil {
		return *t, nil
	}
	return model.Task{}, errs.New(errs.TaskNotFound, "task", "forgotten")
}

var (
	start = time.Unix(1000, 0)
	tick  = DefaultConfig().Interval
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func key(i int) string { return fmt.Sprintf("k%d", i) }
