package transportwire

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
	transportv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/transport/v1"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/grant"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// allowEvery is how often the plugin hears what the clocks of masters show, where nothing else changes.
const allowEvery = 5 * time.Second

// machine is a clock that host and plugin share: CLOCK_BOOTTIME, but for the time in which the machine sleeps. It reads the clock once,
// since a system call would cost as much as the check of a grant.
var machine = func() func() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("clock_gettime: " + err.Error()) // Linux has this clock since 2.6.39.
	}
	at, began := time.Duration(t.Nano()), time.Now()
	return func() time.Duration { return at + time.Since(began) }
}()

// bookOf returns the book of a region, nil for none. NotSupported for grants that the plugin cannot be told of.
func (t *Client) bookOf(r *transport.Region, op string) (*grant.Book, error) {
	if r.Grants == nil {
		return nil, nil //nolint:nilnil // There are none.
	}
	b, ok := r.Grants.(*grant.Book)
	if !ok || !t.has(transport.CapGrants) {
		return nil, errs.New(errs.NotSupported, op, "the plugin's process cannot check grants for region %d", r.ID)
	}
	return b, nil
}

// export returns the message of what a book has, and a channel that is closed when that changes.
func export(b *grant.Book) (*transportv1.Grants, <-chan struct{}) {
	all, now, changed := b.Export()
	shift, out := machine()-now, &transportv1.Grants{}
	for _, s := range all {
		s = s.Shift(shift)
		k := &transportv1.GrantKey{
			Number: s.Number, Key: s.Key.Bytes(), Lead: s.Lead, Trusted: int64(s.Trusted), Reads: int64(s.Reads), Writes: int64(s.Writes),
		}
		if s.Heard {
			latest := int64(s.Latest)
			k.Latest, k.HeardAt = &latest, int64(s.HeardAt)
		}
		out.Keys = append(out.Keys, k)
	}
	return out, changed
}

// load gives a book what a message says. A key that is none is an error.
func load(b *grant.Book, m *transportv1.Grants) error {
	var all []grant.State
	for _, k := range m.GetKeys() {
		key, err := grant.ParseKey(k.GetKey())
		if err != nil {
			return errs.Wrap(errs.InvalidParams, "", err)
		}
		all = append(all, grant.State{
			Number: k.GetNumber(), Key: key, Lead: k.GetLead(), Trusted: time.Duration(k.GetTrusted()), Reads: time.Duration(k.GetReads()),
			Writes: time.Duration(k.GetWrites()), Heard: k.Latest != nil, Latest: time.Duration(k.GetLatest()), HeardAt: time.Duration(k.GetHeardAt()),
		})
	}
	b.Load(all)
	return nil
}

// allow tells the plugin of the grants of a region from now on, until forbid. changed is closed when what it knows is outdated.
func (t *Client) allow(ctx context.Context, id transport.RegionID, b *grant.Book, changed <-chan struct{}) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != running || t.host.Gone() {
		stop()
		return
	}
	t.allowing[id] = func() {
		stop()
		<-done
	}
	go func() {
		defer close(done)
		tick := time.NewTicker(allowEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			case <-tick.C:
			}
			var m *transportv1.Grants
			m, changed = export(b)
			// A plugin that does not take it refuses grants in time, since the clocks that it knows go on.
			_, _ = wire.CallWithin(ctx, t.caller, t.caller.Timeout, "allow", t.rpc.Allow, &transportv1.AllowRequest{Region: uint64(id), Grants: m})
		}
	}()
}

// forbid ends allow.
func (t *Client) forbid(id transport.RegionID) {
	t.mu.Lock()
	end := t.allowing[id]
	delete(t.allowing, id)
	t.mu.Unlock()
	if end != nil {
		end()
	}
}

// forbidAll ends allow for all regions.
func (t *Client) forbidAll() {
	t.mu.Lock()
	all := t.allowing
	t.allowing = map[transport.RegionID]func(){}
	t.mu.Unlock()
	for _, end := range all {
		end()
	}
}
