// Package lease renews the read leases of objects that a client reads for longer than one lease.
package lease

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// ErrNotRenewed is why a lease ended if the client knows no other reason.
var ErrNotRenewed = errors.New("it was not renewed in time")

// User holds leases. Users are independent of each other. The zero value holds none.
type User struct {
	open int // sessions of the user; the mutex of the table guards it
}

// Table has the leases of one client, and renews them in the background.
type Table struct {
	b     *base.Base
	alarm *base.Alarm

	mu     sync.Mutex
	held   map[id]*Held
	closed bool
}

// id names a lease.
type id struct {
	user *User
	key  model.Key
}

// Located is an answer of the master with the time of the request.
type Located struct {
	Object model.Object
	Asked  time.Time
}

// NewTable makes an empty table.
func NewTable(b *base.Base) *Table {
	t := &Table{b: b, held: map[id]*Held{}}
	t.alarm = base.NewAlarm(t.run)
	return t
}

// Close drops all leases and ends the renewals. Repeatable.
func (t *Table) Close() {
	t.mu.Lock()
	t.closed = true
	clear(t.held)
	t.mu.Unlock()
	t.alarm.Close()
}

// Locate asks the master where objects lie that are to be held, and for the checksums of their grains.
func (t *Table) Locate(ctx context.Context, keys []model.Key) ([]model.Result[Located], error) {
	return t.locate(ctx, keys, &model.Answer[model.Object]{WithGrains: t.b.Config.Checksum})
}

func (t *Table) locate(ctx context.Context, keys []model.Key, into *model.Answer[model.Object]) ([]model.Result[Located], error) {
	asked := time.Now()
	got, err := t.b.Locate(ctx, keys, into)
	out := make([]model.Result[Located], len(got))
	for i := range got {
		out[i] = model.Result[Located]{Value: Located{got[i].Value, asked}, Err: got[i].Err}
		if out[i].Err == nil {
			out[i].Err = t.b.Readable(&got[i].Value)
		}
	}
	return out, err
}

// Hold keeps the lease of an object until Drop, or until the user has not used it for the idle
// timeout. It renews a lease that is held already.
func (t *Table) Hold(u *User, key model.Key, at *Located, answered time.Time) error {
	k := id{u, key}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return store.ErrClosed
	}
	old := t.held[k]
	if old != nil && !old.replaced && old.renewed(&at.Object, at.Asked, answered) {
		old.used, old.tried = answered, answered
		return nil
	}
	if old == nil {
		if err := t.reserve(u); err != nil {
			return err
		}
	}
	h := &Held{object: at.Object, asked: at.Asked, tried: at.Asked, used: answered}
	t.held[k] = h
	t.alarm.At(t.due(h))
	return nil
}

// HoldForRead keeps the lease of an object that is being read until Drop. It returns nil once the
// table is closed.
func (t *Table) HoldForRead(u *User, key model.Key, o *model.Object, asked time.Time) *View {
	k := id{u, key}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	h := t.held[k]
	if h == nil {
		h = &Held{object: *o, asked: asked, used: time.Now(), lasting: true}
		h.object.Replicas = slices.Clone(o.Replicas)
		u.open++
		t.held[k] = h
		t.alarm.At(t.due(h))
	}
	v := h.view()
	return &v
}

// Drop ends leases. Reads in flight still succeed. It ignores keys without one.
func (t *Table) Drop(u *User, keys ...model.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		t.drop(id{u, key})
	}
}

// DropAll ends all leases of a user.
func (t *Table) DropAll(u *User) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range t.held {
		if k.user == u {
			t.drop(k)
		}
	}
}

// drop ends a lease. The caller holds mu.
func (t *Table) drop(k id) {
	if t.held[k] != nil {
		delete(t.held, k)
		k.user.open--
	}
}

// Reserve counts one more session of a user, which Unreserve ends. UnavailableInCurrentStatus if the
// user has too many.
func (t *Table) Reserve(u *User) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reserve(u)
}

func (t *Table) reserve(u *User) error {
	if most := t.b.Config.Layers.MaxOpen; u.open >= most {
		return errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, "store: start a session", "%d sessions are open, the bound", most),
			"end sessions that are done; those for reading end by themselves after a while")
	}
	u.open++
	return nil
}

// Unreserve ends Reserve.
func (t *Table) Unreserve(u *User) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u.open--
}

// View is what a read knows of a lease when it begins.
type View struct {
	Object model.Object
	Asked  time.Time
	// Why is the reason why the lease was not renewed, nil if it was.
	Why    error
	held   *Held
	lapses int
}

func (h *Held) view() View {
	return View{Object: h.object, Asked: h.asked, Why: h.why, held: h, lapses: h.lapses}
}

// Held reports whether the user held the lease.
func (v *View) Held() bool { return v.held != nil }

// Use returns the leases of keys for reads that begin now.
func (t *Table) Use(u *User, keys []model.Key, now time.Time) []View {
	out := make([]View, len(keys))
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, key := range keys {
		if h := t.held[id{u, key}]; h != nil {
			h.used = now
			out[i] = h.view()
		}
	}
	return out
}

// Learn keeps the checksums of grains of a held object whose bytes were verified as a whole, for later
// reads of ranges. They must not change any more.
func (t *Table) Learn(v *View, o *model.Object) {
	if v == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := v.held; h.object.Size == o.Size && h.object.Checksum == o.Checksum {
		h.object.Grains = o.Grains
	}
}

// Until returns the time up to which a replica is that of the object, if the table knows a later one
// than expires. A read gains from a renewal in time that still lists the replica.
func (t *Table) Until(v *View, r *model.Replica, expires time.Time) time.Time {
	if v == nil || v.Object.LeaseTTL <= 0 {
		return expires
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if v.held.lapses != v.lapses || !hasReplica(&v.held.object, r) {
		return expires
	}
	return v.held.expires()
}
