package memory

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestPoolLendsDisjointMemory takes and returns buffers at random and keeps what the pool
// promises: no two buffers share a byte, the account is exact, and everything merges back.
func TestPoolLendsDisjointMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mem := make([]byte, rapid.IntRange(minBuffer, 24*minBuffer).Draw(t, "size"))
		p, err := NewPool(mem)
		require.NoError(t, err)
		type lent struct {
			b    *Buffer
			mark byte
		}
		var out []lent
		used := 0
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				n := rapid.IntRange(1, len(mem)).Draw(t, "n")
				b, ok := p.TryGet(n)
				if !ok {
					return
				}
				require.Len(t, b.Bytes(), n)
				mark := byte(len(out) + 1)
				copy(b.Bytes(), bytes.Repeat([]byte{mark}, n))
				out = append(out, lent{b, mark})
				used += minBuffer << p.buddy.order(n)
			},
			"release": func(t *rapid.T) {
				if len(out) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "i")
				used -= minBuffer << p.buddy.order(len(out[i].b.Bytes()))
				out[i].b.Release()
				out[i].b.Release()
				out = append(out[:i], out[i+1:]...)
			},
			"": func(t *rapid.T) {
				require.Equal(t, used, p.Used())
				for _, l := range out {
					require.Equal(t, len(l.b.Bytes()), bytes.Count(l.b.Bytes(), []byte{l.mark}), "a buffer was lent twice")
				}
			},
		})
		for _, l := range out {
			l.b.Release()
		}
		require.Zero(t, p.Used())
		whole := minBuffer
		for whole*2 <= len(mem) {
			whole *= 2
		}
		_, ok := p.TryGet(whole)
		require.True(t, ok, "everything must merge back")
	})
}

func TestPoolWaitsInOrderAndGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewPool(make([]byte, 4*minBuffer))
		require.NoError(t, err)
		all, err := p.Get(t.Context(), 4*minBuffer)
		require.NoError(t, err)

		order := make(chan string, 2)
		get := func(name string, n int) {
			b, err := p.Get(t.Context(), n)
			if err == nil {
				order <- name
				b.Release()
			}
		}
		go get("large", 4*minBuffer)
		synctest.Wait()
		go get("small", 1)
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = p.Get(ctx, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		all.Release()
		require.Equal(t, "large", <-order, "a small one must not overtake")
		require.Equal(t, "small", <-order)
	})
}

func TestPoolServesBehindAnAbandonedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewPool(make([]byte, 2*minBuffer))
		require.NoError(t, err)
		half, err := p.Get(t.Context(), minBuffer)
		require.NoError(t, err)
		defer half.Release()
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { _, err := p.Get(ctx, 2*minBuffer); gone <- err }()
		synctest.Wait()
		got := make(chan *Buffer)
		go func() {
			b, _ := p.Get(t.Context(), 1)
			got <- b
		}()
		synctest.Wait()
		cancel()
		require.Error(t, <-gone)
		(<-got).Release()
	})
}

func TestPoolRefuses(t *testing.T) {
	_, err := NewPool(make([]byte, minBuffer-1))
	require.True(t, errs.Is(err, errs.InvalidParams))
	p, err := NewPool(make([]byte, 3*minBuffer))
	require.NoError(t, err)
	for _, n := range []int{0, -1, 3 * minBuffer} { // Rounded up, three do not fit.
		_, err := p.Get(t.Context(), n)
		require.True(t, errs.Is(err, errs.BufferOverflow), "%d: %v", n, err)
	}
}
