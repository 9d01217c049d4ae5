package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/journal"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/core/store/router"
)

// celled are masters of several cells in one process.
type celled struct {
	p       *pool
	masters []*outage
	stops   []func()
	known   chan struct{} // closed when the number of cells is known
}

func newCelled(t *testing.T, n int) *celled {
	c := &celled{p: newPoolWithout(t, nil), known: make(chan struct{})}
	close(c.known)
	for i := range n {
		c.masters, c.stops = append(c.masters, &outage{}), append(c.stops, func() {})
		c.boot(i)
	}
	t.Cleanup(func() {
		for i := range n {
			c.kill(i)
		}
	})
	return c
}

func (c *celled) boot(i int) {
	m, stop := c.p.newMaster(master.Deps{Boottime: func() journal.Instant { return journal.Instant(time.Now().UnixNano()) }})
	c.masters[i].set(m)
	c.stops[i] = stop
}

func (c *celled) kill(i int) {
	c.masters[i].set(nil)
	c.stops[i]()
	c.stops[i] = func() {}
}

// view is the cells as one process sees them.
type cellView struct {
	*router.Router
	of *celled
}

// Masters implements store.Celled.
func (v cellView) Masters(ctx context.Context) ([]store.Master, error) {
	select {
	case <-v.of.known:
		return v.Router.Masters(ctx)
	case <-ctx.Done():
		return nil, errors.New("it is not known yet")
	}
}

func (c *celled) view(t *testing.T) store.Master {
	var all []store.Master
	for _, m := range c.masters {
		all = append(all, m)
	}
	r := router.New(all...)
	t.Cleanup(r.Close)
	return cellView{r, c}
}

// missing returns the cells of the keys that are not there. A wrong byte fails the test.
func missing(t *testing.T, m *member, keys, size, n int) map[int]int {
	t.Helper()
	out := map[int]int{}
	for i := range keys {
		key := fmt.Sprint("k", i)
		got, err := m.Get(t.Context(), key)
		if err != nil {
			out[cells.Of(key, n)]++
			continue
		}
		require.Equal(t, content(key, size), got)
	}
	return out
}

// TestACellWithoutAMasterShortensNoGrace: readers of the other cells get the grace of a store that stops.
func TestACellWithoutAMasterShortensNoGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCelled(t, 3)
		s := c.p.member("s:1", memberOptions{segments: []uint64{24 << 20}, master: c.view(t), node: func(n *node.Config) { n.StopGrace = 20 * time.Second }})
		c.kill(1)
		began := time.Now()
		s.stop()
		require.GreaterOrEqual(t, time.Since(began), 20*time.Second)
	})
}

// TestAStoreLeavesTheCellsThatAnswer: a store that stops takes its memory out of each cell whose master answers.
func TestAStoreLeavesTheCellsThatAnswer(t *testing.T) {
	for answers := range 3 {
		synctest.Test(t, func(t *testing.T) {
			c, shelf := newCelled(t, 3), newShelf(t)
			s := c.p.member("s:1", memberOptions{segments: []uint64{24 << 20}, vault: shelf, master: c.view(t)})
			var ids []model.SegmentID
			for _, one := range s.node.Segments() {
				ids = append(ids, one.ID)
			}
			for i := range c.masters {
				if i != answers {
					c.kill(i)
				}
			}
			require.Error(t, s.node.UnmountSegments(t.Context(), ids, 0))
			list, err := c.masters[answers].Segments(t.Context())
			require.NoError(t, err)
			require.Empty(t, list, "cell %d", answers)
		})
	}
}

// TestAStoreOfSeveralCells: it has memory at each of them. What lies in a cell is there again after its master has started anew,
// and all of it when the store has; a pool that is cut otherwise begins empty.
func TestAStoreOfSeveralCells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, keys, size = 3, 60, 8 << 10
		c, shelf := newCelled(t, n), newShelf(t)
		o := memberOptions{segments: []uint64{24 << 20}, vault: shelf, master: c.view(t)}
		s, m := c.p.member("s:1", o), c.p.member("c:1", memberOptions{master: c.view(t)})
		require.Len(t, s.node.Segments(), n)
		require.Equal(t, n, whole(t, shelf))
		for _, one := range c.masters {
			list, err := one.Segments(t.Context())
			require.NoError(t, err)
			require.Len(t, list, 1)
		}
		putAll(t, m, keys, size)
		require.Empty(t, missing(t, m, keys, size, n))

		time.Sleep(time.Second) // The ledgers have the ends of the puts.
		c.kill(1)
		time.Sleep(3 * time.Second)
		lost := missing(t, m, keys, size, n)
		require.Len(t, lost, 1, "the other cells serve")
		require.Positive(t, lost[1])
		for i := range keys {
			key := fmt.Sprint("new", i)
			err := m.Put(t.Context(), key, content(key, size), one)
			require.Equal(t, cells.Of(key, n) == 1, err != nil, "%v", err)
		}
		require.False(t, s.node.Mounted())
		c.boot(1)
		time.Sleep(5 * time.Second)
		require.Empty(t, missing(t, m, keys, size, n))
		require.True(t, s.node.Mounted())

		more, err := s.node.MountSegment(t.Context(), node.MountOptions{Size: 24 << 20})
		require.NoError(t, err)
		require.Len(t, more, n)
		require.NoError(t, s.node.UnmountSegments(t.Context(), more, 0))

		s.stop()
		time.Sleep(30 * time.Second) // The masters call it absent.
		o.master = c.view(t)
		s = c.p.member("s:1", o)
		time.Sleep(time.Second)
		require.Empty(t, missing(t, m, keys, size, n), "the next process of the store goes on")
		s.stop()

		other := newCelled(t, 2)
		o.master = other.view(t)
		s = other.p.member("s:1", o)
		m = other.p.member("c:1", memberOptions{master: other.view(t)})
		time.Sleep(time.Second)
		require.Equal(t, keys, func() (sum int) {
			for _, n := range missing(t, m, keys, size, 2) {
				sum += n
			}
			return sum
		}())
		require.Len(t, s.node.Segments(), 2)
		require.Equal(t, 2, whole(t, shelf), "what was of three cells is freed")
	})
}

// TestTheNumberOfCellsIsKnownLater: a store that has started without it divides its memory and joins then.
func TestTheNumberOfCellsIsKnownLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 4
		c, shelf := newCelled(t, n), newShelf(t)
		c.known = make(chan struct{})
		o := memberOptions{segments: []uint64{32 << 20}, vault: shelf, master: c.view(t), early: true}
		s := c.p.member("s:1", o)
		require.Len(t, s.node.Segments(), 1)
		require.Zero(t, whole(t, shelf))
		require.Error(t, s.node.Await(t.Context(), time.Second))
		close(c.known)
		require.NoError(t, s.node.Await(t.Context(), time.Minute))
		require.Len(t, s.node.Segments(), n)
		require.Equal(t, n, whole(t, shelf))
		m := c.p.member("c:1", memberOptions{master: c.view(t)})
		putAll(t, m, 40, 8<<10)
		s.stop()
		time.Sleep(30 * time.Second)

		c.known = make(chan struct{})
		o.master = c.view(t)
		s = c.p.member("s:1", o)
		require.Len(t, s.node.Segments(), n, "the ledgers say to which cells they belong")
		close(c.known)
		require.NoError(t, s.node.Await(t.Context(), time.Minute))
		time.Sleep(time.Second)
		require.Empty(t, missing(t, m, 40, 8<<10, n))
	})
}
