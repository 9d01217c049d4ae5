package store

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// heldObject is an object that a user reads in pieces: where it lies, and the lease on it.
// Guarded by the table's mutex; what obj points to never changes.
type heldObject struct {
	obj      model.Object
	asked    time.Time // before the request that the lease is counted from
	tried    time.Time // the last time that the lease was to be renewed
	used     time.Time
	lapses   int   // how often the lease had run out when it was renewed
	why      error // why it was not renewed
	replaced bool  // the key has another value by now
	lasting  bool  // in use until it is dropped, however long that takes
}

// expires is when the lease runs out, as far as is known.
func (h *heldObject) expires() time.Time { return h.asked.Add(h.obj.LeaseTTL) }

// renewed takes over what the master said of the object anew; false when that is another
// value.
func (h *heldObject) renewed(o *model.Object, asked, answered time.Time) bool {
	inTime := answered.Before(h.expires())
	if !sameValue(&h.obj, o, inTime) {
		return false
	}
	if !inTime {
		h.lapses++
	}
	if h.why = nil; asked.After(h.asked) {
		h.obj, h.asked = *o, asked
	}
	return true
}

// sameValue tells whether two answers of the master are about the same bytes. The checksum
// says so. Without one it takes a copy that is the same, and a lease that did not run out
// between: after that, names and places of copies may come again.
func sameValue(a, b *model.Object, inTime bool) bool {
	if a.Size != b.Size || a.Checksum != b.Checksum {
		return false
	}
	if a.Checksum.Kind != model.ChecksumNone {
		return true
	}
	for i := range a.Replicas {
		if inTime && hasReplica(b, &a.Replicas[i]) {
			return true
		}
	}
	return false
}

// hasReplica reports whether a copy is one of an object's.
func hasReplica(o *model.Object, r *model.Replica) bool {
	for i := range o.Replicas {
		if o.Replicas[i].ID == r.ID && o.Replicas[i].Part == r.Part {
			return true
		}
	}
	return false
}

// located is an answer of the master with the time of the request.
type located struct {
	obj   model.Object
	asked time.Time
}

// BatchGetSessionStart opens sessions for reading: the master is asked once where the objects
// lie, and its lease on them is renewed in the background, a few times per lease for all
// sessions together, until BatchGetSessionEnd. Sessions are not counted: starting one that is
// open renews it. ObjectNotFound and ReplicaIsNotReady: there is nothing to read.
// UnavailableInCurrentStatus: too many are open. Without a new answer an open session stays
// as it was.
func (l *Layers) BatchGetSessionStart(ctx context.Context, keys []model.Key) []error {
	c := l.c
	got := perKey(ctx, c, keys, func(ctx context.Context, keys []model.Key) ([]model.Result[located], error) {
		return c.locateAgain(ctx, keys)
	})
	answered, out := time.Now(), make([]error, len(keys))
	for i := range got {
		err := got[i].Err
		if err == nil {
			err = l.hold(keys[i], &got[i].Value, answered)
		}
		out[i] = errs.Wrap(errs.CodeOf(err), "store: start to get "+quote(keys[i]), err)
	}
	return out
}

// locateAgain asks the master where objects lie that are held, or are to be.
func (c *Client) locateAgain(ctx context.Context, keys []model.Key) ([]model.Result[located], error) {
	asked := time.Now()
	got, err := ask(ctx, c.session, "BatchGetReplicaList", func(ctx context.Context) ([]model.Result[model.Object], error) {
		return c.master.GetReplicas(ctx, c.caller, keys, nil)
	})
	out := make([]model.Result[located], len(got))
	for i := range got {
		out[i] = model.Result[located]{Value: located{got[i].Value, asked}, Err: got[i].Err}
		if out[i].Err == nil {
			out[i].Err = c.readable(&got[i].Value)
		}
	}
	return out, err
}

// hold opens a session, or renews the one that is open.
func (l *Layers) hold(key model.Key, at *located, answered time.Time) error {
	t, k := l.c.table, layerKey{l, key}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	old := t.gets[k]
	if old != nil && !old.replaced && old.renewed(&at.obj, at.asked, answered) {
		old.used, old.tried = answered, answered
		return nil
	}
	if old == nil {
		if err := l.room(); err != nil {
			return err
		}
		l.open++
	}
	h := &heldObject{obj: at.obj, asked: at.asked, tried: at.asked, used: answered}
	t.gets[k] = h
	t.watch(t.dueGet(h))
	return nil
}

// BatchGetSessionEnd ends sessions for reading; reads in flight still succeed. Keys without
// one are no error, since the client ends sessions by itself as well.
func (l *Layers) BatchGetSessionEnd(_ context.Context, keys []model.Key) error {
	if err := l.c.enter(); err != nil {
		return err
	}
	defer l.c.calls.Done()
	t := l.c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		t.dropGet(layerKey{l, key})
	}
	return nil
}
