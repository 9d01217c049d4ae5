package upstream

import (
	"sync"

	"github.com/mooncake-go/mooncake/core/bindings/engine"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Local is the number of the engine's own segment.
const Local = int32(0)

// maxSegments bounds the segments that are open.
const maxSegments = 1 << 20

// segments assigns numbers to names, from 1 on.
type segments struct {
	mu    sync.Mutex
	last  int32
	ids   map[string]int32
	names map[int32]string
}

func (t *segments) id(name string) (int32, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id, ok := t.ids[name]
	return id, ok
}

// add returns the number of a name, and assigns one if necessary.
func (t *segments) add(name string) (int32, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id, ok := t.ids[name]; ok {
		return id, nil
	}
	if t.last >= maxSegments {
		return 0, errs.New(errs.NoAvailableHandle, "openSegment "+name, "%d segments were opened by this engine, the bound", maxSegments)
	}
	if t.ids == nil {
		t.ids, t.names = map[string]int32{}, map[int32]string{}
	}
	t.last++
	t.ids[name], t.names[t.last] = t.last, name
	return t.last, nil
}

// remove forgets a name. Its number stays valid, since a caller may hold it.
func (t *segments) remove(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.ids[name]
	delete(t.ids, name)
	return ok
}

func (t *segments) name(id int32) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name, ok := t.names[id]
	return name, ok
}

// Open returns the number of a segment: Local for the engine's own name, a known number, or a new one
// if a peer of that name answers in bounded time.
func (e *Engine) Open(name string) (int32, error) {
	inner, err := e.open()
	if err != nil {
		return 0, err
	}
	name = engine.SegmentName(name)
	switch id, ok := e.segments.id(name); {
	case name == "":
		return 0, errs.New(errs.InvalidParams, "openSegment", "the name is empty")
	case name == inner.Name():
		return Local, nil
	case ok:
		return id, nil
	}
	if err := inner.EnsurePeer(name); err != nil {
		return 0, err
	}
	return e.segments.add(name)
}

// OpenFresh is Open after it has fetched the descriptor of the segment again. It fails if the segment
// does not answer, even if the segment has a number.
func (e *Engine) OpenFresh(name string) (int32, error) {
	err := e.do(func(inner *engine.Engine) error {
		if name = engine.SegmentName(name); name == "" {
			return nil // Open returns the error.
		}
		inner.Forget(name)
		if err := inner.EnsurePeer(name); err != nil {
			return err
		}
		return inner.Sync(name)
	})
	if err != nil {
		return 0, err
	}
	return e.Open(name)
}

// Sync fetches the descriptor of a segment again, or those of all known segments for "".
func (e *Engine) Sync(name string) error {
	return e.do(func(inner *engine.Engine) error { return inner.Sync(name) })
}

// Remove forgets a segment, so that Open looks it up again. It returns InvalidParams for a segment
// that is not open.
func (e *Engine) Remove(name string) error {
	if !e.segments.remove(engine.SegmentName(name)) {
		return errs.New(errs.InvalidParams, "removeLocalSegment", "%q is not open", name)
	}
	return nil
}

// peer returns the name of a number.
func (e *Engine) peer(inner *engine.Engine, id int32) (string, error) {
	if id == Local {
		return inner.Name(), nil
	}
	name, ok := e.segments.name(id)
	if !ok {
		return "", errs.New(errs.InvalidParams, "transfer", "no segment has the number %d; openSegment returns one", id)
	}
	return name, nil
}

// Notify delivers a message to the engine of a segment.
func (e *Engine) Notify(id uint64, n engine.Notice) error {
	return e.do(func(inner *engine.Engine) error {
		if id > maxSegments {
			return errs.New(errs.InvalidParams, "genNotifyInEngine", "no segment has the number %d", id)
		}
		name, err := e.peer(inner, int32(id))
		if err != nil {
			return err
		}
		return inner.Notify(name, n)
	})
}

// Notices returns the messages that arrived since the last call.
func (e *Engine) Notices() ([]engine.Notice, error) {
	inner, err := e.open()
	if err != nil {
		return nil, err
	}
	return inner.Notices(), nil
}
