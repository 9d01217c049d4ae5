package worker_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/content"
	"github.com/mooncake-go/mooncake/core/bench/trace"
	"github.com/mooncake-go/mooncake/core/bench/worker"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

var six = []uint64{1, 2, 3, 4, 5, 6}

func key(block uint64) string { return worker.Key("m", 3, block, 72) }

// TestWrongBytesAreFound spoils the page of block 3 in the second request. The window is
// 4: block 4 comes with it and is judged too, blocks 5 and 6 are not read.
func TestWrongBytesAreFound(t *testing.T) {
	cases := []struct {
		name  string
		spoil func(page []byte)
		says  string
	}{
		{"a flipped bit", func(p []byte) { p[71] ^= 1 }, "block 0x3 is wrong from byte 71 of 72 on"},
		{"another page", func(p []byte) { content.Fill(p, 5, 3) }, "it holds block 0x5"},
		{"a read that wrote nothing", func(p []byte) { clear(p) }, "block 0x3 is wrong from byte 0 "},
		{"the page of another run", func(p []byte) { content.Fill(p, 3, 4) }, "block 0x3 is wrong from byte 0 "},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			pool := &Faulty{Pool: NewPool(10), AfterGet: func(k string, page []byte, err error) error {
				if k == key(3) {
					c.spoil(page)
				}
				return err
			}}
			res := run(t, config(), pool, requests(six, six))
			require.EqualValues(t, 1, res.PagesWrong)
			require.EqualValues(t, 3, res.PagesVerified)
			require.EqualValues(t, 2, res.BlocksHit, "the wrong page ends the prefix")
			require.EqualValues(t, 4, res.PutsExisting, "the rest is put again")
			require.Len(t, res.Wrong, 1)
			require.Contains(t, res.Wrong[0], c.says)
		})
	}
}

// TestALeftoverIsNotTakenForARead: the read of the second request claims success and
// writes nothing, into the very page that the put of the first filled.
func TestALeftoverIsNotTakenForARead(t *testing.T) {
	pool := &lazy{Pool: NewPool(10)}
	res := run(t, config(), pool, requests([]uint64{1}, []uint64{1}))
	require.EqualValues(t, 1, res.PagesWrong)
	require.Zero(t, res.BlocksHit)
}

type lazy struct{ worker.Pool }

func (l *lazy) GetInto(_ context.Context, keys []string, _ [][]byte) []error {
	return make([]error, len(keys))
}

func TestDescriptionsOfWrongPagesAreBounded(t *testing.T) {
	blocks := make([]uint64, 100)
	for i := range blocks {
		blocks[i] = uint64(i)
	}
	cfg := config()
	cfg.Window = 100
	pool := &Faulty{Pool: NewPool(100), AfterGet: func(_ string, page []byte, err error) error { clear(page); return err }}
	res := run(t, cfg, pool, requests(blocks, blocks))
	require.EqualValues(t, 100, res.PagesWrong)
	require.Len(t, res.Wrong, 16)
}

// TestPagesLostAfterTheLookup are misses and are put again: evicted, or their node died.
func TestPagesLostAfterTheLookup(t *testing.T) {
	for _, code := range []errs.Code{errs.ObjectNotFound, errs.ChecksumMismatch, errs.ReplicaIsGone} {
		t.Run(code.String(), func(t *testing.T) {
			mem := NewPool(10)
			lost := false
			pool := &Faulty{Pool: mem, AfterGet: func(k string, page []byte, err error) error {
				if k != key(2) || lost {
					return err
				}
				lost = true
				mem.Drop(func(k string) bool { return k == key(2) })
				return code.Err()
			}}
			res := run(t, config(), pool, requests(six, six, six))
			require.Zero(t, res.PagesWrong)
			require.Equal(t, map[string]uint64{code.String(): 1}, res.Get.Failed)
			require.EqualValues(t, 1+6, res.BlocksHit)
			require.EqualValues(t, 6+1, res.PutsOK)
			require.EqualValues(t, 4, res.PutsExisting)
		})
	}
}

func TestFailedPutsAreCounted(t *testing.T) {
	pool := &Faulty{Pool: NewPool(10), AfterPut: func(k string, err error) error {
		if k == key(2) {
			return errs.New(errs.TransferFail, "put", "cut")
		}
		return err
	}}
	res := run(t, config(), pool, requests(six))
	require.Equal(t, map[string]uint64{"TRANSFER_FAIL": 1}, res.Put.Failed)
	require.EqualValues(t, 5, res.PutsOK)
	require.EqualValues(t, 5*72, res.BytesPut)
}

// TestAPoolThatDoesNotAnswerForEachKey is not believed.
func TestAPoolThatDoesNotAnswerForEachKey(t *testing.T) {
	pool := &short{Pool: NewPool(10)}
	res := run(t, config(), pool, requests(six, six))
	require.Zero(t, res.BlocksHit+res.PagesVerified+res.PutsOK)
	require.EqualValues(t, 4, res.Get.Failed["INTERNAL_ERROR"])
	require.EqualValues(t, 12, res.Put.Failed["INTERNAL_ERROR"])
}

type short struct{ worker.Pool }

func (s *short) GetInto(ctx context.Context, keys []string, dst [][]byte) []error {
	return s.Pool.GetInto(ctx, keys, dst)[1:]
}

func (s *short) PutFrom(ctx context.Context, keys []string, src [][]byte) []error {
	return s.Pool.PutFrom(ctx, keys, src)[1:]
}

func TestLookupOutlivesARestartOfTheMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := time.Now().Add(20 * time.Second)
		pool := &Faulty{Pool: NewPool(10), BeforeExist: func(context.Context, []string) error {
			if time.Now().Before(back) {
				return errs.New(errs.RPCFail, "exist", "connection refused")
			}
			return nil
		}}
		res := run(t, config(), pool, requests(six, six))
		require.EqualValues(t, 6, res.BlocksHit)
		require.Positive(t, res.Lookup.Failed["RPC_FAIL"])
		require.LessOrEqual(t, res.Lookup.Failed["RPC_FAIL"], uint64(30), "tries are spaced")
		require.EqualValues(t, 2, res.Lookup.Latency.Count(), "only lookups that were answered")
	})
}

func TestLookupGivesUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		cause error
		tries bool
	}{
		{"when patience ends", errs.New(errs.RPCFail, "exist", "connection refused"), true},
		{"at once when it is hopeless", errs.New(errs.InvalidKey, "exist", "bad key"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &Faulty{Pool: NewPool(10), BeforeExist: func(context.Context, []string) error { return c.cause }}
				w, err := worker.New(config(), pool)
				require.NoError(t, err)
				begin := time.Now()
				res, err := w.Run(t.Context(), requests(six))
				require.ErrorIs(t, err, c.cause)
				require.ErrorContains(t, err, "is the master running?")
				require.LessOrEqual(t, time.Since(begin), 30*time.Second)
				require.Equal(t, c.tries, res.Lookup.Failures() > 1)
				require.Zero(t, res.Requests)
			})
		})
	}
}

// TestACallThatHangsIsBounded: the pool waits for its context, which the worker ends.
func TestACallThatHangsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &Faulty{Pool: NewPool(10), BeforeGet: func(ctx context.Context, _ []string) { <-ctx.Done() }}
		res := run(t, config(), pool, requests(six, six))
		require.EqualValues(t, 4, res.Get.Failures(), "one window")
		require.EqualValues(t, 6, res.PutsExisting)
	})
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		pool := &Faulty{Pool: NewPool(10), BeforeGet: func(ctx context.Context, _ []string) { cancel(); <-ctx.Done() }}
		w, err := worker.New(config(), pool)
		require.NoError(t, err)
		res, err := w.Run(ctx, requests(six, six, six))
		require.ErrorIs(t, err, context.Canceled)
		require.EqualValues(t, 1, res.Requests, "what was done is reported")
		now, _ := pool.Pool.(*Pool).Buffers()
		require.Zero(t, now)
	})
}

func TestErrorsAroundTheRun(t *testing.T) {
	w, err := worker.New(config(), &noBuffer{Pool: NewPool(1)})
	require.NoError(t, err)
	res, err := w.Run(t.Context(), requests(six))
	require.ErrorIs(t, err, os.ErrPermission)
	require.NotNil(t, res.Get.Latency)

	w, err = worker.New(config(), NewPool(1))
	require.NoError(t, err)
	_, err = w.Run(t.Context(), badSource{})
	require.ErrorIs(t, err, trace.ErrSyntax)
	var line *trace.LineError
	require.True(t, errors.As(err, &line))
}

type noBuffer struct{ worker.Pool }

func (*noBuffer) Buffer(int, int) ([][]byte, func(), error) { return nil, nil, os.ErrPermission }

type badSource struct{}

func (badSource) Next() (trace.Request, error) {
	return trace.Request{}, &trace.LineError{Line: 1, Err: trace.ErrSyntax}
}
