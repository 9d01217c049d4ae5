package store_test

import (
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/core/internal/testkit/memdir"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// logged returns a pool whose log is collected.
func logged(t *testing.T) (*pool, *logbuf.Buffer) {
	t.Helper()
	p, log := newPool(t, nil), &logbuf.Buffer{}
	p.log = slog.New(slog.NewTextHandler(log, nil))
	return p, log
}

// TestALedgerThatCannotGrow: where the file system has no room for the ledger, a store goes on with all that it has, and
// keeps it no longer.
func TestALedgerThatCannotGrow(t *testing.T) {
	k := &folder{dir: memdir.Mount(t, "tmpfs", "size=1100k,mode=0700")}
	synctest.Test(t, func(t *testing.T) {
		p, log := logged(t)
		o := memberOptions{segments: []uint64{1 << 20}, vault: k}
		s, m := p.member("s:1", o), p.member("c:1", memberOptions{})
		putAll(t, m, 1200, 64)
		require.Equal(t, 1200, readable(t, m, 1200, 64))
		time.Sleep(20 * time.Second)
		require.Positive(t, log.Count("its ledger cannot grow"), "its ledger cannot grow")
		require.Positive(t, log.Count("no room for them"), "no room for them")
		require.Zero(t, whole(t, k))
		require.Equal(t, 1200, readable(t, m, 1200, 64))
		require.NoError(t, m.Put(t.Context(), "new", content("new", 64), one))
		s.stop()
		p.member("s:1", o)
		require.Zero(t, readable(t, m, 1200, 64), "it comes back without the objects, not with some of them")
		require.Equal(t, 1, whole(t, k))
	})
}

// TestALedgerThatCouldNotGrowIsNotRead: a process that dies before it has removed the files leaves no older ledger.
func TestALedgerThatCouldNotGrowIsNotRead(t *testing.T) {
	k := &folder{dir: memdir.Mount(t, "tmpfs", "size=1100k,mode=0700")}
	synctest.Test(t, func(t *testing.T) {
		p, log := logged(t)
		o := memberOptions{segments: []uint64{1 << 20}, vault: k}
		s, m := p.member("s:1", o), p.member("c:1", memberOptions{})
		putAll(t, m, 1200, 64)
		s.stop()
		require.Equal(t, 1, whole(t, k))
		p.member("s:1", o)
		require.Zero(t, readable(t, m, 1200, 64))
		require.Positive(t, log.Count("kept memory cannot be used"), "kept memory cannot be used")
	})
}

// TestAFullFileSystem: a store that finds no room for its memory does not start, says why, and leaves nothing behind.
func TestAFullFileSystem(t *testing.T) {
	k := &folder{dir: memdir.Mount(t, "tmpfs", "size=3m,mode=0700")}
	synctest.Test(t, func(t *testing.T) {
		var err error
		m := newPool(t, nil).member("s:1", memberOptions{segments: []uint64{2 << 20, 2 << 20}, vault: k, fails: &err})
		require.ErrorContains(t, err, "2 MiB are needed in a file")
		require.True(t, errs.Is(err, errs.InvalidParams), "%v", err)
		m.stop()
		require.Empty(t, k.kept(t))
	})
}

// TestPagesOfAnotherSize: a store whose pages are not those of the directory does not start, and takes nothing away.
func TestPagesOfAnotherSize(t *testing.T) {
	k := &folder{dir: memdir.Tmpfs(t)}
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, nil)
		o := memberOptions{segments: []uint64{1 << 20}, vault: k}
		p.member("s:1", o).stop()
		kept, err := node.OpenKept(t.Context(), k.open, "pool", silent())
		require.NoError(t, err)
		cfg := node.DefaultConfig()
		cfg.Segments, cfg.Kept, cfg.HugePages = o.segments, kept, memory.Huge2M
		require.ErrorContains(t, cfg.Validate(), "set store.use_hugepage")
		require.NoError(t, kept.Close())
		require.Equal(t, 1, whole(t, k))
	})
}

// TestRemovedFiles: an operator may remove the files of a store that runs. It goes on, and says once that they are gone.
func TestRemovedFiles(t *testing.T) {
	k := &folder{dir: memdir.Tmpfs(t)}
	synctest.Test(t, func(t *testing.T) {
		p, log := logged(t)
		o := memberOptions{segments: []uint64{1 << 20}, vault: k}
		s, m := p.member("s:1", o), p.member("c:1", memberOptions{})
		putAll(t, m, 40, 8<<10)
		require.NoError(t, os.RemoveAll(k.path("")))
		time.Sleep(time.Minute)
		returns(t, m, 40, 40, 8<<10)
		require.Equal(t, 1, log.Count("the memory of this store is not kept any more"))
		s.stop()
		p.member("s:1", o)
		require.Zero(t, readable(t, m, 40, 8<<10))
		require.Equal(t, 1, whole(t, k))
	})
}
