package regionkit_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/regionkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// holder counts how often it was cut, and calls then, if it is set, after the first cut.
type holder struct {
	cuts atomic.Int32
	then func()
}

func (h *holder) Cut() {
	if h.cuts.Add(1) == 1 && h.then != nil {
		go h.then()
	}
}

type (
	table  = regionkit.Table[*holder]
	region = regionkit.Region[*holder]
)

const (
	add  = "transport/x: register"
	drop = "transport/x: deregister"
	day  = 24 * time.Hour // Nothing waits that long unless something is broken.
)

func added(t *testing.T, into *table, id transport.RegionID, mem []byte, access transport.Access) *region {
	t.Helper()
	r, err := into.Add(add, transport.Region{ID: id, Mem: mem, FD: -1, Access: access})
	require.NoError(t, err)
	return r
}

func TestAdd(t *testing.T) {
	mem := make([]byte, 300)
	var x table
	r := added(t, &x, 7, mem[100:200], transport.AccessRemote)
	require.Equal(t, transport.RegionID(7), r.ID())
	require.EqualValues(t, 100, r.Size())
	require.Equal(t, transport.AccessRemote, r.Access())
	for name, c := range map[string]struct {
		region transport.Region
		says   string
	}{
		"no number":      {transport.Region{Mem: mem[:1]}, "region ID is 0"},
		"nothing":        {transport.Region{ID: 1}, "is empty"},
		"another right":  {transport.Region{ID: 1, Mem: mem[:1], Access: 4}, "unknown access 0x4"},
		"same number":    {transport.Region{ID: 7, Mem: mem[:1]}, "region ID 7 is in use"},
		"same memory":    {transport.Region{ID: 1, Mem: mem[100:200]}, "overlaps region 7"},
		"its first byte": {transport.Region{ID: 1, Mem: mem[:101]}, "overlaps region 7"},
		"its last byte":  {transport.Region{ID: 1, Mem: mem[199:]}, "overlaps region 7"},
		"inside":         {transport.Region{ID: 1, Mem: mem[150:151]}, "overlaps region 7"},
		"around":         {transport.Region{ID: 1, Mem: mem}, "overlaps region 7"},
	} {
		_, err := x.Add(add, c.region)
		require.ErrorContains(t, err, c.says, name)
		require.ErrorContains(t, err, add, name)
		require.Equal(t, errs.InvalidParams, errs.CodeOf(err), name)
	}
	added(t, &x, 1, mem[200:], transport.AccessLocal)
	added(t, &x, 2, mem[:100], transport.AccessLocal)
	var ids []transport.RegionID
	for r := range x.All() {
		ids = append(ids, r.ID())
	}
	require.Equal(t, []transport.RegionID{2, 7, 1}, ids)
	x.Clear()
	require.Nil(t, x.Get(7))
	require.Empty(t, slices.Collect(x.All()))
	require.NotEqual(t, r.Token(), added(t, &x, 7, mem, transport.AccessRemote).Token(), "an old key opens nothing")
}

func TestAcquire(t *testing.T) {
	mem := make([]byte, 400)
	var x table
	open, reads := added(t, &x, 1, mem[:100], transport.AccessRemote), added(t, &x, 2, mem[100:200], transport.AccessRemoteRead)
	writes, shut := added(t, &x, 3, mem[200:300], transport.AccessRemoteWrite), added(t, &x, 4, mem[300:], transport.AccessLocal)
	wrong := open.Token()
	wrong[15] ^= 1
	for i, c := range []struct {
		id             transport.RegionID
		token          regionkit.Token
		kind           transport.OpKind
		offset, length uint64
		want           regionkit.Refusal
	}{
		{1, open.Token(), transport.Read, 0, 100, regionkit.Granted},
		{1, open.Token(), transport.Write, 99, 1, regionkit.Granted},
		{1, open.Token(), transport.Read, 100, 0, regionkit.Granted},
		{1, open.Token(), transport.Read, 101, 0, regionkit.OutOfRange},
		{1, open.Token(), transport.Read, 99, 2, regionkit.OutOfRange},
		{1, open.Token(), transport.Read, ^uint64(0), 2, regionkit.OutOfRange},
		{1, open.Token(), transport.Write, 2, ^uint64(0), regionkit.OutOfRange},
		{1, wrong, transport.Read, 0, 1, regionkit.WrongToken},
		{2, open.Token(), transport.Read, 0, 1, regionkit.WrongToken},
		{5, open.Token(), transport.Read, 0, 1, regionkit.UnknownRegion},
		{0, regionkit.Token{}, transport.Read, 0, 1, regionkit.UnknownRegion},
		{2, reads.Token(), transport.Read, 0, 1, regionkit.Granted},
		{2, reads.Token(), transport.Write, 0, 1, regionkit.WriteDenied},
		{3, writes.Token(), transport.Write, 0, 1, regionkit.Granted},
		{3, writes.Token(), transport.Read, 0, 1, regionkit.ReadDenied},
		{4, shut.Token(), transport.Read, 0, 1, regionkit.ReadDenied},
		{4, shut.Token(), transport.Write, 0, 1, regionkit.WriteDenied},
	} {
		by := new(holder)
		r, got, why := x.Acquire(regionkit.Request{Region: c.id, Token: c.token, Kind: c.kind, Offset: c.offset, Length: c.length}, by)
		require.Equal(t, c.want, why, "%d", i)
		if why != regionkit.Granted {
			require.Nil(t, got)
			continue
		}
		require.Len(t, got, int(c.length), "%d", i)
		require.Equal(t, int(c.length), cap(got), "nothing behind it can be reached")
		if c.length > 0 {
			require.Same(t, &mem[(uint64(c.id)-1)*100+c.offset], &got[0])
		}
		require.Equal(t, 1, r.Held())
		r.Release(by)
		require.Zero(t, r.Held())
	}
}

func TestAcquireAt(t *testing.T) {
	mem := make([]byte, 500)
	var x table
	open := added(t, &x, 1, mem[100:200], transport.AccessRemote)
	added(t, &x, 2, mem[200:300], transport.AccessRemoteRead)
	added(t, &x, 3, mem[300:400], transport.AccessLocal)
	base := uint64(open.Addr()) - 100
	for at, want := range map[[2]uint64]regionkit.Refusal{
		{0, 1}: regionkit.UnknownRegion, {99, 1}: regionkit.UnknownRegion, {100, 100}: regionkit.Granted, {199, 1}: regionkit.Granted,
		{100, 101}: regionkit.OutOfRange, {150, ^uint64(0)}: regionkit.OutOfRange, {200, 100}: regionkit.Granted, {300, 1}: regionkit.UnknownRegion,
		{400, 1}: regionkit.UnknownRegion,
	} {
		by := new(holder)
		r, got, why := x.AcquireAt(transport.Read, base+at[0], at[1], by)
		require.Equal(t, want, why, "%v", at)
		if why == regionkit.Granted {
			require.Same(t, &mem[at[0]], &got[0])
			require.Len(t, got, int(at[1]))
			r.Release(by)
		}
	}
	_, _, why := x.AcquireAt(transport.Write, base+200, 1, new(holder))
	require.Equal(t, regionkit.WriteDenied, why)
}

// held is a region that a holder holds twice.
func held(t *testing.T, x *table, by *holder) (*region, regionkit.Request) {
	r := added(t, x, 1, make([]byte, 10), transport.AccessRemote)
	q := regionkit.Request{Region: 1, Token: r.Token(), Kind: transport.Read, Length: 1}
	for range 2 {
		_, _, why := x.Acquire(q, by)
		require.Equal(t, regionkit.Granted, why)
	}
	require.Equal(t, 1, r.Held())
	return r, q
}

// withdrawn waits until new requests are refused.
func withdrawn(t *testing.T, x *table, q regionkit.Request) {
	t.Helper()
	require.Eventually(t, func() bool {
		probe := new(holder)
		r, _, why := x.Acquire(q, probe)
		if why == regionkit.Granted {
			r.Release(probe)
		}
		return why == regionkit.Draining
	}, time.Minute, time.Millisecond)
}

// TestRemoveWaits: until what had begun is over, and not for more.
func TestRemoveWaits(t *testing.T) {
	var x table
	by := new(holder)
	r, q := held(t, &x, by)
	over := make(chan error, 1)
	go func() { over <- x.Remove(context.Background(), drop, 1, day) }()
	withdrawn(t, &x, q)
	r.Release(by)
	require.Equal(t, 1, r.Held(), "it held twice")
	_, err := x.Add(add, transport.Region{ID: 1, Mem: make([]byte, 1)})
	require.ErrorContains(t, err, "in use", "its number is free when it is gone")
	select {
	case err := <-over:
		t.Fatal("something still holds it", err)
	default:
	}
	r.Release(by)
	require.NoError(t, <-over)
	require.Zero(t, by.cuts.Load())
	require.Equal(t, errs.InvalidParams, errs.CodeOf(x.Remove(context.Background(), drop, 1, day)))
	_, _, why := x.Acquire(q, by)
	require.Equal(t, regionkit.UnknownRegion, why)
	require.Empty(t, slices.Collect(x.All()))
	added(t, &x, 1, make([]byte, 1), transport.AccessLocal)
	require.NoError(t, x.Remove(context.Background(), drop, 1, day), "nothing holds it")
}

// TestRemoveCuts: after the grace, and then it waits for what was cut to let go.
func TestRemoveCuts(t *testing.T) {
	var x table
	by := new(holder)
	r, _ := held(t, &x, by)
	by.then = func() {
		r.Release(by)
		r.Release(by)
	}
	require.NoError(t, x.Remove(context.Background(), drop, 1, time.Millisecond))
	require.EqualValues(t, 1, by.cuts.Load())
	require.Zero(t, r.Held())
	require.Nil(t, x.Get(1))
}

// TestRemoveGivesUp: when the context ends, and the region stays closed until a later call.
func TestRemoveGivesUp(t *testing.T) {
	for name, grace := range map[string]time.Duration{"during the grace": day, "after it": 0} {
		t.Run(name, func(t *testing.T) {
			var x table
			by := new(holder)
			r, q := held(t, &x, by)
			ctx, cancel := context.WithCancel(context.Background())
			over := make(chan error, 1)
			go func() { over <- x.Remove(ctx, drop, 1, grace) }()
			withdrawn(t, &x, q)
			if grace == 0 {
				require.Eventually(t, func() bool { return by.cuts.Load() > 0 }, time.Minute, time.Millisecond)
			}
			cancel()
			err := <-over
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorContains(t, err, drop)
			require.ErrorContains(t, err, "must not be reused yet")
			require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(err))
			require.Equal(t, errs.ClassLocalDevice, errs.ClassOf(err))
			require.Positive(t, by.cuts.Load())
			require.NotNil(t, x.Get(1))
			withdrawn(t, &x, q)
			r.Release(by)
			r.Release(by)
			require.NoError(t, x.Remove(context.Background(), drop, 1, day))
			require.Nil(t, x.Get(1))
		})
	}
}

// limit is a guard that lets up to some writes be in progress.
type limit struct {
	left int
	last transport.WriteID
	open map[transport.WriteID]transport.Writer
}

func (l *limit) BeginWrite(offset, size uint64, by transport.Writer) transport.WriteID {
	if l.left == 0 {
		return 0
	}
	l.left--
	l.last++
	l.open[l.last] = by
	return l.last
}

func (l *limit) EndWrite(id transport.WriteID) { delete(l.open, id) }

// TestGuard: it is asked last and about writes alone, and learns when they end.
func TestGuard(t *testing.T) {
	var x table
	g := &limit{left: 3, open: map[transport.WriteID]transport.Writer{}}
	mem := make([]byte, 100)
	r, err := x.Add(add, transport.Region{ID: 1, Mem: mem, FD: -1, Access: transport.AccessRemote, Guard: g})
	require.NoError(t, err)
	acquire := func(kind transport.OpKind, offset, length uint64, by *holder) regionkit.Refusal {
		_, got, why := x.Acquire(regionkit.Request{Region: 1, Token: r.Token(), Kind: kind, Offset: offset, Length: length}, by)
		require.Equal(t, why == regionkit.Granted, got != nil)
		return why
	}
	a, b := new(holder), new(holder)
	require.Equal(t, regionkit.OutOfRange, acquire(transport.Write, 99, 2, a))
	require.Equal(t, regionkit.Granted, acquire(transport.Write, 100, 0, b), "it changes nothing")
	r.Release(b)
	require.Equal(t, regionkit.Granted, acquire(transport.Read, 0, 100, a))
	require.Equal(t, 3, g.left)
	require.Equal(t, regionkit.Granted, acquire(transport.Write, 10, 20, a))
	require.Equal(t, map[transport.WriteID]transport.Writer{1: a}, g.open)
	r.ReleaseWrite(a)
	require.Empty(t, g.open, "though it still reads")
	require.Equal(t, 1, r.Held())

	require.Equal(t, regionkit.Granted, acquire(transport.Write, 10, 20, a))
	require.Equal(t, regionkit.Granted, acquire(transport.Write, 50, 20, a))
	require.Equal(t, regionkit.WriteEnded, acquire(transport.Write, 10, 20, a))
	require.Equal(t, regionkit.WriteEnded, acquire(transport.Write, 10, 20, b))
	_, _, why := x.AcquireAt(transport.Write, uint64(r.Addr()), 1, b)
	require.Equal(t, regionkit.WriteEnded, why)
	require.Equal(t, 1, r.Held(), "who was refused holds nothing")
	r.Release(a)
	r.Release(a)
	require.Len(t, g.open, 2, "which of the three were writes is not known")
	r.Release(a)
	require.Empty(t, g.open)
	require.Zero(t, r.Held())
	require.NoError(t, x.Remove(t.Context(), drop, 1, day))
}

// TestGuardedWritesAllocateNothing, nor do they without a guard.
func TestGuardedWritesAllocateNothing(t *testing.T) {
	var x table
	g := &limit{left: 1 << 40, open: map[transport.WriteID]transport.Writer{}}
	mem := make([]byte, 200)
	r, err := x.Add(add, transport.Region{ID: 1, Mem: mem[:100], FD: -1, Access: transport.AccessRemote, Guard: g})
	require.NoError(t, err)
	by := new(holder)
	for _, r := range []*region{r, added(t, &x, 2, mem[100:], transport.AccessRemote)} {
		q := regionkit.Request{Region: r.ID(), Token: r.Token(), Kind: transport.Write, Length: 1}
		require.Zero(t, testing.AllocsPerRun(100, func() {
			_, _, _ = x.Acquire(q, by)
			r.ReleaseWrite(by)
		}))
	}
}
