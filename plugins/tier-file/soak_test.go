package file

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/aio"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// soakEnv is how many operations TestFaultsInAnyOrder makes with each way to read and write.
const soakEnv = "MOONCAKE_TIER_FILE_OPS"

// slotBytes is the memory of one operation of a soak, and the largest value.
const slotBytes = 64 << 10

// soak is a tier that many operations use while its storage misbehaves.
type soak struct {
	s    setup
	t    *testing.T
	rnd  *rand.Rand
	dir  string
	r    *rig
	gate *gate
	held []tier.Found
	puts uint64
	// counts of completions
	right, wrote, refused, late int
}

// TestFaultsInAnyOrder: the storage fails, hangs and changes bytes, operations have deadlines, the tier is restarted and wiped.
// A read returns the bytes that were written, or an error, and each operation ends.
func TestFaultsInAnyOrder(t *testing.T) {
	total := 1500
	if text := os.Getenv(soakEnv); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, soakEnv)
		total = n
	}
	each(t, func(t *testing.T, s setup) {
		k := &soak{s: s, t: t, rnd: rand.New(rand.NewPCG(7, 8)), dir: s.folder(t)}
		k.restart()
		for done := 0; done < total; {
			stop := k.fault()
			done += k.operate(1 + k.rnd.IntN(16))
			stop()
			if k.rnd.IntN(4) == 0 {
				k.forget(k.rnd.IntN(8))
			}
		}
		require.NoError(t, k.r.Stop(context.Background()))
		t.Logf("%d reads right, %d writes, %d refused, %d too late", k.right, k.wrote, k.refused, k.late)
		require.Positive(t, k.right)
		require.Positive(t, k.refused)
	})
}

// restart stops the tier and starts it again. It has what the scan finds then.
func (k *soak) restart() {
	if k.r != nil {
		require.NoError(k.t, k.r.Stop(context.Background()))
	}
	k.r, k.gate = k.s.gatedIn(k.t, k.dir)
	k.held = k.r.scan(64)
}

// fault makes the storage misbehave until the function that it returns is called.
func (k *soak) fault() (stop func()) {
	g := k.gate // A restart has another one.
	stop = func() {}
	switch k.rnd.IntN(12) {
	case 0, 1: // One operation fails: more would have the tier take no more writes.
		var once atomic.Bool
		g.failing(func(*aio.Request) error {
			if once.CompareAndSwap(false, true) {
				return unix.EIO
			}
			return nil
		})
		return func() { g.failing(nil) }
	case 2, 3:
		g.set(true)
		time.AfterFunc(time.Duration(k.rnd.IntN(3000))*time.Microsecond, func() { g.set(false) })
		return func() { g.set(false) }
	case 4, 5:
		if len(k.held) > 0 {
			d := k.r.disk(k.t, k.held[k.rnd.IntN(len(k.held))])
			d.flip(k.rnd.IntN(d.size))
		}
	case 6:
		if k.rnd.IntN(20) == 0 {
			k.restart()
		}
	case 7:
		if k.rnd.IntN(100) == 0 {
			require.NoError(k.t, k.r.Wipe(context.Background()))
			k.held = nil
		}
	}
	return stop
}

// op makes an operation on the memory of a slot, which the check of its completion is for.
func (k *soak) op(slot int) (o tier.Op, check func(tier.Completion)) {
	mem := k.r.mem[slot*slotBytes:][:slotBytes]
	if k.rnd.IntN(3) == 0 {
		o.Deadline = time.Now().Add(time.Duration(k.rnd.IntN(4000)) * time.Microsecond)
	}
	if o.Urgent = k.rnd.IntN(2) == 0; len(k.held) == 0 || k.rnd.IntN(3) == 0 {
		k.puts++
		rec, value := numbered(k.puts, 1+k.rnd.Uint64N(slotBytes))
		copy(mem, value)
		o.Kind, o.Record, o.Local = tier.Write, rec, [][]byte{mem[:rec.Size]}
		return o, func(c tier.Completion) {
			k.wrote++
			k.held = append(k.held, tier.Found{Record: rec, At: c.At})
		}
	}
	f := k.held[k.rnd.IntN(len(k.held))]
	from := k.rnd.Uint64N(f.Record.Size)
	n := 1 + k.rnd.Uint64N(f.Record.Size-from)
	o.Kind, o.Record, o.At, o.Offset, o.Local = tier.Read, f.Record, f.At, from, [][]byte{mem[:n]}
	return o, func(tier.Completion) {
		k.right++
		_, value := numbered(f.Record.Version.Put, f.Record.Size)
		require.True(k.t, bytes.Equal(value[from:from+n], mem[:n]), "%d bytes at %d of %s", n, from, f.Record.Key)
	}
}

// operate makes so many operations at a time, and waits until all have ended.
func (k *soak) operate(n int) int {
	ops, checks := make([]tier.Op, n), make([]func(tier.Completion), n)
	for i := range ops {
		ops[i], checks[i] = k.op(i)
		ops[i].ID = uint64(i)
	}
	dead := false
	dst := make([]tier.Completion, 7)
	for left, rest := n, ops; left > 0; {
		took, err := k.r.Submit(rest)
		require.NoError(k.t, err)
		rest = rest[took:]
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		got, err := k.r.Reap(ctx, dst)
		cancel()
		require.NoError(k.t, err, "an operation does not end")
		for _, c := range dst[:got] {
			switch c.Status {
			case tier.OK:
				checks[c.ID](c)
			case tier.Quarantined:
				left++ // Returned follows.
			}
			switch code := errs.CodeOf(c.Err); code {
			case errs.OK:
			case errs.RPCTimeout:
				k.late++
			case errs.NoAvailableHandle:
				k.forget(len(k.held) / 2)
			default:
				k.refused++
				dead = dead || errs.ClassOf(c.Err) == errs.ClassLocalDevice
			}
			left--
		}
	}
	if dead {
		k.restart()
	}
	return n
}

// forget forgets some records.
func (k *soak) forget(n int) {
	var at []tier.Locator
	for range min(n, len(k.held)) {
		i := k.rnd.IntN(len(k.held))
		at = append(at, k.held[i].At)
		k.held[i] = k.held[len(k.held)-1]
		k.held = k.held[:len(k.held)-1]
	}
	require.NoError(k.t, k.r.Forget(context.Background(), at))
}
