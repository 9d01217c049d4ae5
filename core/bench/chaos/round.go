package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/sdk/security"
)

const (
	// settle is how long a round waits between the last put of its keys and the fault, at least: a
	// kill -9 may lose what was acknowledged milliseconds before.
	settle = 250 * time.Millisecond
	// before and after are how long clients load the pool before the fault and after the recovery.
	before = time.Second
	// moves is how long the cells of a new pool may go from one master to another.
	moves = 12 * time.Second
	after = 2 * time.Second
	// fresh is how many keys are put right before the fault.
	fresh = 200
	// balanceLimit is how long memory may stay in use after its objects were removed: what an unfinished put of a client that
	// is gone may still write, and what readers of an earlier master may still read, is held for less.
	balanceLimit = time.Minute
	// batch is how many keys are put or read at a time before and after the fault.
	batch = 128
)

// electedMasters is how many masters a pool has of which etcd elects one.
const electedMasters = 3

// layout is what a pool consists of, beside its two stores.
type layout struct {
	linked   bool   // the first store is behind a link
	masters  int    // 0 for one
	embedded bool   // the masters run the etcd members
	replicas uint32 // copies of each page, 0 for one
	old      bool   // it begins with the program of another release
}

// round is one fault on one pool.
type round struct {
	opts    Options
	link    *link
	pool    *pool
	victims *victims
	pages   *pages
	done    func(context.Context) error // closes the client, nil while there is none
	upgrade *Upgrade                    // what an upgrade did, else nil
	load    *traffic                    // from its start on
}

// newRound starts a pool and puts the keys. An *unable says that this machine cannot have the fault.
func newRound(ctx context.Context, opts Options, on layout) (_ *round, err error) {
	r := &round{opts: opts}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if on.old && opts.From == "" {
		return nil, &unable{errors.New("it needs the program of another release, see --from")}
	}
	if on.linked {
		if r.link, err = newLink(ctx); err != nil && ctx.Err() == nil {
			err = &unable{err}
		}
		if err != nil {
			return nil, err
		}
	}
	if r.pool, err = newPool(ctx, opts, r.link, on); err != nil {
		return nil, err
	}
	r.pages = &pages{model: "chaos", seed: uint64(time.Now().UnixNano()), size: opts.PageSize, replicas: max(on.replicas, 1), tally: &tally{}}
	if r.pages.client, r.done, err = opts.Open(ctx, r.pool.address(), r.pool.secure.Of(security.RoleClient)); err != nil {
		return nil, err
	}
	if on.old {
		r.upgrade = &Upgrade{least: opts.Keys}
	}
	for id := 0; id < opts.Keys; id += batch {
		if err := r.pages.putBatch(ctx, uint64(id), min(batch, opts.Keys-id)); err != nil {
			return nil, fmt.Errorf("put keys %d to %d of %d: %w", id+1, min(id+batch, opts.Keys), opts.Keys, err)
		}
	}
	return r, nil
}

// run loads the pool, with clients in processes of their own where they are part of the fault, strikes
// and measures.
func (r *round) run(ctx context.Context, clients bool, strike func(context.Context, *round) error) (row Row, err error) {
	row = Row{Keys: r.opts.Keys, Rounds: 1}
	load := start(ctx, r.pages, r.opts.Keys, r.upgrade != nil)
	r.load = load
	defer load.end()
	wait := max(settle, before)
	if r.pool.cells() > 1 {
		wait = max(wait, moves)
	}
	pause(ctx, wait)
	if clients {
		if r.victims, err = startVictims(ctx, r.pool, r.pages); err != nil {
			return row, err
		}
	}
	for id := range uint64(fresh) {
		if err := r.pages.put(ctx, uint64(r.opts.Keys)+id); err != nil {
			return row, fmt.Errorf("put fresh key %d of %d: %w", id+1, fresh, err)
		}
	}
	if r.opts.Security == string(security.ModeMTLS) {
		defer watch(ctx, r.pool).end(&row)
	}
	r.pages.mark(time.Now())
	if err := strike(ctx, r); err != nil {
		return row, err
	}
	for struck := time.Now(); !r.pages.since(struck) && time.Since(struck) < r.opts.Recovery && pause(ctx, 20*time.Millisecond); {
	}
	pause(ctx, after)
	load.end()
	r.pages.end(time.Now(), &row)
	load.repeatFailed(ctx)

	row.Readable = r.readable(ctx, 0, r.opts.Keys)
	row.Fresh, row.FreshReadable = fresh, r.readable(ctx, uint64(r.opts.Keys), fresh)
	if r.victims != nil {
		err = r.victims.check(ctx)
	}
	if err == nil && r.opts.Balance && r.opts.Keep && r.upgrade == nil { // An upgrade ends with the other program, whose faults it may have.
		row.StuckBytes, err = r.balance(ctx)
	}
	r.account(&row)
	row.Wrong, row.Details = r.pages.wrong, r.pages.details
	return row, errors.Join(err, context.Cause(ctx))
}

// account enters what an upgrade did into a row.
func (r *round) account(row *Row) {
	if r.upgrade == nil {
		return
	}
	r.upgrade.Repeated, r.upgrade.Failed = r.pages.repeats, r.pages.failedTwice
	row.Upgrade, row.Readable = r.upgrade, min(row.Readable, r.upgrade.least)
}

// readable counts the keys from first on that can be read whole, until all can or the patience is over.
func (r *round) readable(ctx context.Context, first uint64, keys int) int {
	missing := make([]uint64, keys)
	for i := range missing {
		missing[i] = first + uint64(i)
	}
	for by := time.Now().Add(r.opts.Patience); ; {
		var still []uint64
		for ids := range slices.Chunk(missing, batch) {
			still = append(still, r.pages.unreadable(ctx, ids)...)
		}
		missing = still
		if len(missing) == 0 || !time.Now().Before(by) || !pause(ctx, 100*time.Millisecond) {
			return keys - len(missing)
		}
	}
}

// balance removes all keys, and returns how many bytes no object has and no object can get after balanceLimit.
func (r *round) balance(ctx context.Context) (stuck uint64, err error) {
	var left string
	for by := time.Now().Add(balanceLimit); ; {
		if _, err = r.pages.client.RemoveByRegex(ctx, "", true); err == nil {
			if stuck, left, err = r.pool.taken(ctx); err == nil && stuck == 0 {
				return 0, nil
			}
		}
		if !time.Now().Before(by) || !pause(ctx, 100*time.Millisecond) {
			break
		}
	}
	if err == nil {
		r.pages.detail("memory is in use without an object: %s", left)
	}
	return stuck, err
}

// close ends everything that the round started. It may be called with parts missing.
func (r *round) close() error {
	var err error
	if r.victims != nil {
		r.victims.kill()
	}
	if r.done != nil {
		err = r.done(context.Background())
	}
	if r.pool != nil {
		err = errors.Join(err, r.pool.close())
	}
	if r.link != nil {
		err = errors.Join(err, r.link.close())
	}
	return err
}
