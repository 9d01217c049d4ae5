package shm

import (
	"context"
	"encoding/binary"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func addrOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// ringMemory returns memory with the alignment that a ring needs.
func ringMemory(l Layout) []byte {
	mem := make([]byte, l.Bytes()+128)
	skip := -addrOf(mem) & 127
	return mem[skip : skip+uintptr(l.Bytes())]
}

func ends(t require.TestingT, l Layout, b Bell) (*Producer, *Consumer, []byte) {
	mem := ringMemory(l)
	p, err := NewProducer(mem, l, b)
	require.NoError(t, err)
	c, err := NewConsumer(mem, l, b, 0)
	require.NoError(t, err)
	return p, c, mem
}

// TestRingIsAQueue puts, publishes, reads and frees entries at random. Every entry must come out
// once and in order, and the numbers of free and ready entries must be those of a queue.
func TestRingIsAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Layout{Entries: 1 << rapid.IntRange(0, 4).Draw(t, "log entries"), EntrySize: 16}
		p, c, _ := ends(t, l, nil)
		// The indices may wrap around.
		start := rapid.SampledFrom([]uint64{0, ^uint64(0), ^uint64(0) - 7}).Draw(t, "start")
		p.next, p.published, p.freed, c.next, c.seen = start, start, start, start, start
		p.tail.Store(start)
		p.head.Store(start)
		var queue []uint64 // written and not freed
		put, published := 0, 0
		next := uint64(1)
		entry := make([]byte, 16)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				free, err := p.Free()
				require.NoError(t, err)
				require.Equal(t, l.Entries-len(queue), free)
				for range rapid.IntRange(0, free).Draw(t, "n") {
					binary.NativeEndian.PutUint64(entry, next)
					binary.NativeEndian.PutUint64(entry[8:], ^next)
					p.Put(entry)
					queue = append(queue, next)
					next++
					put++
				}
			},
			"publish": func(t *rapid.T) {
				require.NoError(t, p.Publish())
				published = len(queue)
			},
			"take": func(t *rapid.T) {
				ready, err := c.Ready()
				require.NoError(t, err)
				require.Equal(t, published, ready)
				for i := range ready {
					require.Equal(t, 16, c.Copy(i, entry))
					require.Equal(t, queue[i], binary.NativeEndian.Uint64(entry))
					require.Equal(t, ^queue[i], binary.NativeEndian.Uint64(entry[8:]))
				}
				n := rapid.IntRange(0, ready).Draw(t, "freed")
				c.Free(n)
				queue, published = queue[n:], published-n
			},
		})
	})
}

// TestCorruptIndices writes arbitrary indices, as a hostile peer may. Each end must return an error
// or stay within its memory, and never claim more entries than the ring has.
func TestCorruptIndices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Layout{Entries: 8, EntrySize: 8}
		p, c, _ := ends(t, l, nil)
		entry := make([]byte, 8)
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				p.tail.Store(rapid.Uint64().Draw(t, "tail"))
			case 1:
				p.head.Store(rapid.Uint64().Draw(t, "head"))
			case 2:
				free, err := p.Free()
				if err != nil {
					require.ErrorIs(t, err, ErrCorrupt)
					return
				}
				require.LessOrEqual(t, free, l.Entries)
				require.GreaterOrEqual(t, free, 0)
				for range free {
					p.Put(entry)
				}
				require.NoError(t, p.Publish())
			case 3:
				ready, err := c.Ready()
				if err != nil {
					require.ErrorIs(t, err, ErrCorrupt)
					return
				}
				require.LessOrEqual(t, ready, l.Entries)
				require.GreaterOrEqual(t, ready, 0)
				for i := range ready {
					c.Copy(i, entry)
				}
				c.Free(ready)
			}
		}
	})
}

func TestIndicesThatGoBack(t *testing.T) {
	p, c, _ := ends(t, Layout{Entries: 8, EntrySize: 8}, nil)
	for range 5 {
		p.Put(nil)
	}
	require.NoError(t, p.Publish())
	n, err := c.Ready()
	require.NoError(t, err)
	require.Equal(t, 5, n)
	p.tail.Store(4)
	_, err = c.Ready()
	require.ErrorIs(t, err, ErrCorrupt, "entries disappeared")
	p.tail.Store(5)
	c.Free(3)
	_, err = p.Free()
	require.NoError(t, err)
	p.head.Store(2)
	_, err = p.Free()
	require.ErrorIs(t, err, ErrCorrupt, "a read entry is unread")
	p.head.Store(6)
	_, err = p.Free()
	require.ErrorIs(t, err, ErrCorrupt, "an unwritten entry is read")
}

func TestLayouts(t *testing.T) {
	for _, l := range []Layout{{}, {3, 8}, {-8, 8}, {2 * MaxEntries, 8}, {8, 0}, {8, 12}, {8, MaxEntrySize + 8}} {
		require.Error(t, l.Validate(), "%+v", l)
		_, err := NewProducer(make([]byte, 1<<20), l, nil)
		require.Error(t, err)
	}
	l := Layout{Entries: 8, EntrySize: 8}
	mem := ringMemory(Layout{Entries: 64, EntrySize: 8})
	_, err := NewConsumer(mem[8:], l, nil, 0)
	require.Error(t, err, "not aligned")
	_, err = NewConsumer(mem[:l.Bytes()-1], l, nil, 0)
	require.Error(t, err, "too small")
}

func eventBell(t *testing.T) *FileBell {
	b, err := NewEventBell()
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// TestNoWakeUpIsLost checks that a consumer that sleeps between entries gets all of them.
func TestNoWakeUpIsLost(t *testing.T) {
	b := eventBell(t)
	p, c, _ := ends(t, Layout{Entries: 4, EntrySize: 8}, b)
	const total = 2_000
	failed := make(chan error, 1)
	go func() {
		entry := make([]byte, 8)
		for i := uint64(0); i < total; {
			free, err := p.Free()
			if err != nil {
				failed <- err
				return
			}
			if free == 0 {
				runtime.Gosched()
			}
			for range free {
				binary.NativeEndian.PutUint64(entry, i)
				p.Put(entry)
				i++
			}
			if err := p.Publish(); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	entry := make([]byte, 8)
	for i := uint64(0); i < total; {
		n, err := c.Wait(t.Context())
		require.NoError(t, err)
		for k := range n {
			c.Copy(k, entry)
			require.Equal(t, i, binary.NativeEndian.Uint64(entry))
			i++
		}
		c.Free(n)
	}
	require.NoError(t, <-failed)
}

func TestWaitEnds(t *testing.T) {
	b := eventBell(t)
	p, c, _ := ends(t, Layout{Entries: 4, EntrySize: 8}, b)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Wait(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = c.Wait(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Zero(t, c.waiting.Load(), "no waiter is left")

	p.Put(nil)
	require.NoError(t, p.Publish())
	n, err := c.Wait(t.Context())
	require.NoError(t, err, "the context of an earlier wait does not end a new one")
	require.Equal(t, 1, n)
	c.Free(1)

	ended := make(chan error, 1)
	go func() {
		_, err := c.Wait(t.Context())
		ended <- err
	}()
	require.Eventually(t, func() bool { return c.waiting.Load() == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, b.Close())
	select {
	case err := <-ended:
		require.ErrorIs(t, err, os.ErrClosed)
	case <-time.After(time.Minute):
		t.Fatal("the wait has not ended")
	}
}

// TestFalseAlarms checks that a peer that rings without an entry only costs time.
func TestFalseAlarms(t *testing.T) {
	b := eventBell(t)
	p, c, _ := ends(t, Layout{Entries: 4, EntrySize: 8}, b)
	var stop atomic.Bool
	alarms := make(chan struct{})
	go func() {
		defer close(alarms)
		for !stop.Load() {
			p.waiting.Store(0)
			_ = b.Ring(p.waiting)
			runtime.Gosched()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Wait(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	stop.Store(true)
	<-alarms
}

// TestBetweenProcesses sends numbers to a child process, which sends them back.
func TestBetweenProcesses(t *testing.T) {
	p := startEcho(t, "eventfd", 0)
	entry := make([]byte, echo.EntrySize)
	for sent, got := uint64(0), uint64(0); got < 5000; {
		free, err := p.out.Free()
		require.NoError(t, err)
		for range min(free, 1+int(sent%7)) {
			binary.NativeEndian.PutUint64(entry, sent)
			p.out.Put(entry)
			sent++
		}
		require.NoError(t, p.out.Publish())
		n, err := p.in.Wait(t.Context())
		require.NoError(t, err)
		for i := range n {
			p.in.Copy(i, entry)
			require.Equal(t, got, binary.NativeEndian.Uint64(entry))
			got++
		}
		p.in.Free(n)
	}
}

// TestBellFollowsEachContext checks that each Wait ends with its own context only, although the
// bell remembers the context of the Wait before.
func TestBellFollowsEachContext(t *testing.T) {
	b := eventBell(t)
	for range 200 {
		first, cancel := context.WithCancel(t.Context())
		second, cancelSecond := context.WithCancel(t.Context())
		require.NoError(t, b.Ring(nil))
		require.NoError(t, b.Wait(first, nil))
		ended := make(chan error, 1)
		go cancel()
		wait := func(ctx context.Context) (err error) {
			for err == nil { // A Wait may return early.
				err = b.Wait(ctx, nil)
			}
			return err
		}
		go func() { ended <- wait(second) }()
		select {
		case err := <-ended:
			t.Fatalf("ended by another's context: %v", err)
		default:
		}
		cancelSecond()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.ErrorIs(t, wait(first), context.Canceled)
	}
}

func TestBellDoesNotAllocate(t *testing.T) {
	b := eventBell(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_ = b.Ring(nil)
		_ = b.Wait(ctx, nil)
	}))
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	require.Error(t, b.Ring(nil))
	require.Error(t, b.Wait(context.WithoutCancel(ctx), nil))
	require.Error(t, b.Wait(t.Context(), nil))
	require.Equal(t, -1, b.FD())
}

// TestPipeBell checks that the two ends of a pipe have separate flags, and that Ring does not block
// on a full pipe.
func TestPipeBell(t *testing.T) {
	out, theirs, err := NewPipeBell(true)
	require.NoError(t, err)
	defer out.Close()
	in, err := BellOf(theirs)
	require.NoError(t, err)
	defer in.Close()
	require.NoError(t, unix.SetNonblock(in.FD(), false), "what a hostile reader may do")
	for range 20_000 {
		require.NoError(t, out.Ring(nil))
	}
	require.NoError(t, unix.SetNonblock(in.FD(), true))
	require.NoError(t, in.Wait(t.Context(), nil))
	ours, theirs, err := NewPipeBell(false)
	require.NoError(t, err)
	defer ours.Close()
	ring, err := BellOf(theirs)
	require.NoError(t, err)
	defer ring.Close()
	require.NoError(t, ring.Ring(nil))
	require.NoError(t, ours.Wait(t.Context(), nil))
	ended := make(chan error, 1)
	go func() { ended <- ours.Wait(t.Context(), nil) }()
	ours.Wake()
	require.NoError(t, <-ended)
	ours.Wake()
	require.NoError(t, ours.Wait(t.Context(), nil), "Wake also ends a later Wait")
}

func TestConsumed(t *testing.T) {
	p, c, _ := ends(t, Layout{Entries: 4, EntrySize: 8}, eventBell(t))
	for i := range uint64(3) {
		require.Equal(t, i, p.Written())
		p.Put(nil)
	}
	require.NoError(t, p.Publish())
	n, err := c.Ready()
	require.NoError(t, err)
	require.Equal(t, 3, n)
	c.Free(2)
	got, err := p.Consumed()
	require.NoError(t, err)
	require.EqualValues(t, 2, got)
	p.head.Store(9)
	_, err = p.Consumed()
	require.ErrorIs(t, err, ErrCorrupt)
}
