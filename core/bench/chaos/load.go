package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/content"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/transfer"
)

const (
	// callTimeout bounds one call of the load.
	callTimeout = 30 * time.Second
	// batch is how many keys one call of the load reads.
	batch = 16
	// least and most bound the length of a range.
	least, most = 1, 8 << 10
)

// load puts objects and reads them. One goroutine uses it.
type load struct {
	pool store.Pool
	opts Options
	seed uint64
	keys []model.Key
	want [][]byte // what each key has
	dst  [][]byte // for a batch
	rng  *rand.Rand

	wrong   int
	longest time.Duration // of the calls
	last    time.Time     // of the latest success
	outage  time.Duration // the longest time between two successes
}

func newLoad(p store.Pool, opts Options, seed uint64) *load {
	l := &load{pool: p, opts: opts, seed: seed, rng: rand.New(rand.NewPCG(seed, 1))}
	for i := range opts.Keys {
		page := make([]byte, opts.PageSize)
		content.Fill(page, uint64(i), seed)
		l.keys, l.want = append(l.keys, fmt.Sprintf("chaos/%d/%d", seed, i)), append(l.want, page)
	}
	for range batch {
		l.dst = append(l.dst, make([]byte, opts.PageSize))
	}
	return l
}

// put stores every object.
func (l *load) put(ctx context.Context) error {
	for lo := 0; lo < len(l.keys); lo += batch {
		var items []store.Item
		for i := lo; i < min(lo+batch, len(l.keys)); i++ {
			items = append(items, store.Item{Key: l.keys[i], Value: [][]byte{l.want[i]}})
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		got := l.pool.PutItems(call, items, model.DefaultReplicateConfig())
		cancel()
		for i, r := range got {
			if r.Err != nil {
				return fmt.Errorf("chaos: put %s: %w", items[i].Key, r.Err)
			}
		}
	}
	return nil
}

// run reads until the context ends: whole objects, ranges, and layers in turn.
func (l *load) run(ctx context.Context) {
	l.last = time.Now()
	for turn := 0; ctx.Err() == nil; turn++ {
		t0 := time.Now()
		good := l.turn(turn) // The end of the load does not end a call, which would then count as failed.
		now := time.Now()
		l.longest = max(l.longest, now.Sub(t0))
		if l.outage = max(l.outage, now.Sub(l.last)); good {
			l.last = now
		} else {
			time.Sleep(time.Millisecond) // A call that fails at once is to leave the processors to others.
		}
	}
}

// turn makes one call and reports whether anything was read.
func (l *load) turn(n int) (good bool) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	at := l.rng.IntN(len(l.keys))
	if n%3 == 0 {
		return l.whole(ctx, at-at%batch, nil) > 0
	}
	reads, from := l.ranges(at)
	if n%3 == 1 {
		for i, r := range l.pool.GetIntoRanges(ctx, reads) {
			ok := true
			for _, one := range r {
				ok = ok && one.Err == nil
				l.leave(i, one.Err)
			}
			if ok {
				l.check(&reads[i], from[i])
				good = true
			}
		}
		return good
	}
	s := l.pool.Layers()
	keys := make([]model.Key, len(reads))
	for i := range reads {
		keys[i] = reads[i].Key
	}
	s.StartGets(ctx, keys)
	for i, r := range s.GetRanges(ctx, reads) {
		if r.Err == nil {
			l.check(&reads[i], from[i])
			good = true
		}
		l.leave(i, r.Err)
	}
	_ = s.EndGets(ctx, keys) // A session that is not open has nothing to end.
	return good
}

// ranges makes reads of two ranges of some objects from one on.
func (l *load) ranges(first int) (reads []store.Ranges, at []int) {
	for i := range batch {
		k, rest := (first+i)%len(l.keys), l.dst[i]
		r := store.Ranges{Key: l.keys[k]}
		for range 2 {
			n := least + l.rng.IntN(min(most, len(rest)/2)-least+1)
			clear(rest[:n])
			r.Fragments = append(r.Fragments, store.Fragment{Offset: uint64(l.rng.IntN(l.opts.PageSize - n + 1)), Mem: rest[:n:n]}) //nolint:gosec // not negative
			rest = rest[n:]
		}
		reads, at = append(reads, r), append(at, k)
	}
	return reads, at
}

// leave takes memory out of use to which bytes may still come after a read that failed.
func (l *load) leave(i int, err error) {
	if errors.Is(err, transfer.ErrQuarantined) {
		l.dst[i] = make([]byte, l.opts.PageSize)
	}
}

// check counts wrong ranges.
func (l *load) check(r *store.Ranges, key int) {
	for _, f := range r.Fragments {
		if !bytes.Equal(f.Mem, l.want[key][f.Offset:][:len(f.Mem)]) {
			l.wrong++
		}
	}
}

// whole reads a batch of objects from one on, and returns how many it got. It notes them in have.
func (l *load) whole(ctx context.Context, first int, have []bool) (n int) {
	last := min(first+batch, len(l.keys))
	for i, r := range l.pool.BatchGetInto(ctx, l.keys[first:last], l.dst[:last-first]) {
		if r.Err != nil {
			l.leave(i, r.Err)
			continue
		}
		n++
		if r.Value != l.opts.PageSize || content.Verify(l.dst[i], uint64(first+i), l.seed) >= 0 { //nolint:gosec // not negative
			l.wrong++
		}
		if have != nil {
			have[first+i] = true
		}
	}
	return n
}

// readable counts the objects that can be read, the best of the attempts within a limit.
func (l *load) readable(ctx context.Context, limit time.Duration) int {
	have := make([]bool, len(l.keys))
	for end := time.Now().Add(limit); ; {
		n := 0
		for first := 0; first < len(l.keys); first += batch {
			call, cancel := context.WithTimeout(ctx, callTimeout)
			l.whole(call, first, have)
			cancel()
		}
		for _, h := range have {
			if h {
				n++
			}
		}
		if n == len(l.keys) || ctx.Err() != nil || time.Now().After(end) {
			return n
		}
		time.Sleep(100 * time.Millisecond)
	}
}
