// Package layers moves objects layer by layer. A session is about one object: the client asks the
// master when it starts and when it ends, and any number of calls in between move ranges of the
// object without asking.
package layers

import (
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
	"github.com/mooncake-go/mooncake/core/store/client/internal/get"
	"github.com/mooncake-go/mooncake/core/store/client/internal/lease"
	"github.com/mooncake-go/mooncake/core/store/client/internal/put"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/core/store/internal/promreg"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Table has all sessions for writing of one client, and revokes those that take too long.
type Table struct {
	*base.Base
	reader *get.Reader
	writer *put.Writer
	leases *lease.Table
	alarm  *base.Alarm

	mu     sync.Mutex
	puts   map[id]*openPut
	plain  uint64 // bytes that the sessions hold until they are sealed
	closed bool
}

// id names a session.
type id struct {
	user *Layers
	key  model.Key
}

// NewTable makes an empty table.
func NewTable(b *base.Base, r *get.Reader, w *put.Writer, leases *lease.Table) *Table {
	t := &Table{Base: b, reader: r, writer: w, leases: leases, puts: map[id]*openPut{}}
	t.alarm = base.NewAlarm(t.expire)
	return t
}

// Close ends all sessions and revokes the puts among them. Repeatable.
func (t *Table) Close(ctx context.Context) {
	t.mu.Lock()
	t.closed = true
	users := map[*Layers]struct{}{}
	for k := range t.puts {
		users[k.user] = struct{}{}
	}
	t.mu.Unlock()
	t.leases.Close()
	t.alarm.Close()
	for u := range users {
		if err := u.Close(ctx); err != nil {
			t.Log.Warn("puts could not be revoked, the master releases them by its timeout", "error", err)
		}
	}
}

// expire revokes the puts that took too long and returns when the next one has.
func (t *Table) expire(ctx context.Context) (next time.Time) {
	now := boottime.Time()
	byUser := map[*Layers][]model.Key{}
	t.mu.Lock()
	for k, p := range t.puts {
		if due := t.due(p, now); !due.After(now) {
			byUser[k.user] = append(byUser[k.user], k.key)
		} else if next.IsZero() || due.Before(next) {
			next = due
		}
	}
	t.mu.Unlock()
	for user, keys := range byUser {
		ctx, cancel := context.WithTimeout(ctx, t.Config.FinishTimeout)
		failed := user.revokeAll(ctx, keys)
		cancel()
		t.Log.Warn("puts were revoked whose sessions were not ended in time", "sessions", len(keys), "after", t.Config.Layers.PutTimeout, "key", keys[0], "error", failed)
	}
	return next
}

// due is when a put is revoked. While a call uses it, that is a little later. The caller holds mu.
func (t *Table) due(p *openPut, now time.Time) time.Time {
	due := p.started.Add(t.Config.Layers.PutTimeout)
	if (p.busy || p.writing > 0) && due.Before(now.Add(time.Second)) {
		due = now.Add(time.Second)
	}
	return due
}

// drop removes a session. The caller holds mu.
func (t *Table) drop(k id) {
	if p := t.puts[k]; p != nil {
		t.writer.Over(&p.item)
		t.plain -= uint64(len(p.plain))
		delete(t.puts, k)
		t.leases.Unreserve(&k.user.user)
	}
}

// Layers implements store.Layers for one user of a client.
type Layers struct {
	*Table
	user lease.User
}

// NewUser makes a user, whose sessions are independent of those of others.
func (t *Table) NewUser() *Layers { return &Layers{Table: t} }

// Close implements store.Layers.
func (l *Layers) Close(ctx context.Context) error {
	l.leases.DropAll(&l.user)
	l.mu.Lock()
	var puts []model.Key
	for k := range l.puts {
		if k.user == l {
			puts = append(puts, k.key)
		}
	}
	l.mu.Unlock()
	return l.revokeAll(ctx, puts)
}

// StartGets implements store.Layers.
func (l *Layers) StartGets(ctx context.Context, keys []model.Key) []error {
	got := base.PerKey(ctx, l.Base, keys, l.leases.Locate)
	answered, out := boottime.Time(), make([]error, len(keys))
	for i := range got {
		err := got[i].Err
		if err == nil {
			err = l.leases.Hold(&l.user, keys[i], &got[i].Value, answered)
		}
		out[i] = errs.Wrap(errs.CodeOf(err), "store: start to get "+store.Quote(keys[i]), err)
	}
	return out
}

// GetRanges implements store.Layers.
func (l *Layers) GetRanges(ctx context.Context, reads []store.Ranges) []model.Result[int] {
	defer promreg.Observe(l.Metrics.BatchGet, time.Now())
	if err := l.Calls.Enter("store"); err != nil {
		return base.Failed[int](len(reads), err)
	}
	defer l.Calls.Leave()
	t0, c, out := time.Now(), l.reader.Call(len(reads)), make([]model.Result[int], len(reads))
	defer c.Release()
	for i := range c.Items {
		it := &c.Items[i]
		it.Key = reads[i].Key
		it.Ranges = func(size uint64) []store.Fragment {
			var fs []store.Fragment
			fs, it.Err = within("get", &reads[i], size)
			return fs
		}
	}
	c.ReadHeld(ctx, &l.user)
	bytes := 0
	for i := range c.Items {
		out[i] = model.Result[int]{Value: c.Items[i].Read(), Err: c.Items[i].Err}
		bytes += out[i].Value
	}
	l.Metrics.Reads.Done("batch_get_into_multi_buffer_ranges", uint64(bytes), t0)
	return out
}

// within returns the fragments of ranges that are all inside of an object.
func within(what string, r *store.Ranges, size uint64) ([]store.Fragment, error) {
	for _, f := range r.Fragments {
		if !f.Within(size) {
			return nil, errs.New(errs.InvalidParams, "store: "+what+" "+store.Quote(r.Key), "the object has %d bytes, %d from %d on go beyond", size, len(f.Mem), f.Offset)
		}
	}
	return fragment.NotEmpty(r.Fragments), nil
}

// EndGets implements store.Layers.
func (l *Layers) EndGets(_ context.Context, keys []model.Key) error {
	if err := l.Calls.Enter("store"); err != nil {
		return err
	}
	defer l.Calls.Leave()
	l.leases.Drop(&l.user, keys...)
	return nil
}

// openPut is an object that a user writes in ranges. The table's mutex guards it; item belongs to the
// call that is busy with it.
type openPut struct {
	item    put.Item
	started time.Time // of boottime.Time, before the request
	right   session.WriteRight
	busy    bool          // a call starts, ends or revokes it
	sealed  bool          // nothing is written any more
	writing int           // calls that write
	idle    chan struct{} // with sealed: the last of them closes it
	failed  error         // why a write failed
	// plain is the value so far, of an object that is sealed when it ends, and stored says that this happened.
	plain   []byte
	stored  bool
	written coverage
	// grains are the checksums of what is written of each grain; invalid once a byte was written twice.
	// They are nil without checksums.
	grains []uint32
}
