package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memdir"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/core/vault"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// keeps is where a member of a test keeps its memory.
type keeps interface {
	open(ctx context.Context, anew bool) (vault.Vault, error)
	pages() memory.HugePages
	// kept returns the names of what is kept, at a moment at which no member uses it.
	kept(t *testing.T) []string
	// file opens what is kept under a name, and drop removes it.
	file(t *testing.T, name string) *os.File
	drop(t *testing.T, name string)
}

// whole is the number of segments that are kept with their ledgers. Nothing else is.
func whole(t *testing.T, k keeps) int {
	t.Helper()
	n := 0
	names := k.kept(t)
	for _, name := range names {
		if id, ok := strings.CutPrefix(name, "ledger-"); ok && slices.Contains(names, "memory-"+id) {
			n++
		}
	}
	require.Len(t, names, 2*n, "nothing else is kept")
	return n
}

// eachVault runs a test in virtual time with files in memory of both page sizes, and with descriptors.
func eachVault(t *testing.T, run func(t *testing.T, k keeps)) {
	for name, start := range map[string]func(t *testing.T) keeps{
		"descriptors": func(t *testing.T) keeps { return newShelf(t) },
		"tmpfs":       func(t *testing.T) keeps { return &folder{dir: memdir.Tmpfs(t)} },
		"dax":         func(t *testing.T) keeps { return &folder{dir: memdir.DAX(t)} },
		"hugetlbfs":   func(t *testing.T) keeps { return &folder{dir: memdir.HugePages(t, 24), huge: memory.Huge2M} },
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && (name == "dax" || name == "hugetlbfs") {
				t.Skip("runs the code of tmpfs on another file system")
			}
			k := start(t)
			synctest.Test(t, func(t *testing.T) { run(t, k) })
		})
	}
}

// folder is a vault of files in a directory.
type folder struct {
	dir  string
	huge memory.HugePages
}

func (f *folder) pages() memory.HugePages { return f.huge }

func (f *folder) open(ctx context.Context, anew bool) (vault.Vault, error) {
	return vault.Open(ctx, vault.Settings{Where: f.dir, Owner: "pool_s", Anew: anew})
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, "pool_s_0", name) }

func (f *folder) kept(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(f.path(""))
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (f *folder) file(t *testing.T, name string) *os.File {
	t.Helper()
	file, err := os.OpenFile(f.path(name), os.O_RDWR, 0)
	require.NoError(t, err)
	return file
}

func (f *folder) drop(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, os.Remove(f.path(name)))
}

// shelf is a vault in this process, for tests in virtual time; those of core/vault and test/e2e have real ones.
type shelf struct {
	mu    sync.Mutex
	files map[string]*os.File
	gone  bool // until it is opened again
}

func newShelf(t *testing.T) *shelf {
	s := &shelf{files: map[string]*os.File{}}
	t.Cleanup(s.clear)
	return s
}

func copied(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	return os.NewFile(uintptr(fd), f.Name()), err
}

func (s *shelf) String() string { return "shelf" }

func (s *shelf) Close() error { return nil }

// open opens the shelf.
func (s *shelf) open(context.Context, bool) (vault.Vault, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = false
	return s, nil
}

// clear does what the end of a keeper does.
func (s *shelf) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		_ = f.Close()
	}
	clear(s.files)
	s.gone = true
}

func (s *shelf) Names(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return nil, errors.New("the keeper has gone")
	}
	return slices.Sorted(maps.Keys(s.files)), nil
}

func (s *shelf) Make(name string, _ uint64) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	return os.NewFile(uintptr(fd), name), err
}

func (s *shelf) Take(_ context.Context, name string) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files[name] == nil {
		return nil, vault.ErrNotKept
	}
	return copied(s.files[name])
}

func (s *shelf) Keep(_ context.Context, name string, f *os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := copied(f)
	if old := s.files[name]; old != nil {
		_ = old.Close()
	}
	s.files[name] = c
	return err
}

func (s *shelf) Drop(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[name]; f != nil {
		_ = f.Close()
		delete(s.files, name)
	}
	return nil
}

func (s *shelf) pages() memory.HugePages { return memory.HugeNone }

func (s *shelf) kept(*testing.T) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.files))
}

func (s *shelf) file(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := s.Take(t.Context(), name)
	require.NoError(t, err)
	return f
}

func (s *shelf) drop(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, s.Drop(t.Context(), name))
}

// readable returns how many of n objects a member reads. A wrong byte fails the test.
func readable(t *testing.T, m *member, n, size int) int {
	t.Helper()
	time.Sleep(time.Second) // The first pull of a node that has just attached.
	found := 0
	for i := range n {
		key := fmt.Sprint("k", i)
		got, err := m.Get(t.Context(), key)
		if store.IsMiss(err) || errs.Is(err, errs.RPCFail) { // A client that saw the master go asks again after a moment.
			continue
		}
		require.NoError(t, err)
		require.Equal(t, content(key, size), got)
		found++
	}
	return found
}

// returns waits until n objects are readable. A node that attaches as another one leaves takes some seconds now and then.
func returns(t *testing.T, m *member, n, of, size int) {
	t.Helper()
	for range 30 {
		if readable(t, m, of, size) == n {
			return
		}
	}
	require.Equal(t, n, readable(t, m, of, size))
}

func putAll(t *testing.T, m *member, n, size int) {
	t.Helper()
	for i := range n {
		key := fmt.Sprint("k", i)
		require.NoError(t, m.Put(t.Context(), key, content(key, size), one))
	}
}

// TestAStoreReturns: the next process of a store goes on with what the one before had, under its address and under
// another, at the master that it knew and at a new one.
func TestAStoreReturns(t *testing.T) {
	for _, c := range []struct {
		name    string
		address string
		reboot  bool
		away    time.Duration
	}{
		{name: "same address", address: "s:1"},
		{name: "other address", address: "s:2"},
		{name: "new master", address: "s:1", reboot: true},
		{name: "new master, other address", address: "s:2", reboot: true},
		{name: "after the master called it dead", address: "s:1", away: 30 * time.Second},
		{name: "after the master called it dead, other address", address: "s:2", away: 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachVault(t, func(t *testing.T, k keeps) {
				p := newPool(t, nil)
				o := memberOptions{segments: []uint64{1 << 20, 1 << 20}, vault: k}
				s, m := p.member("s:1", o), p.member("c:1", memberOptions{})
				putAll(t, m, 40, 8<<10)
				require.NoError(t, m.BatchRemove(t.Context(), []string{"k7"}, true)[0])
				before := s.node.Segments()
				s.stop()
				if c.reboot {
					p.kill()
					p.boot()
				}
				time.Sleep(c.away)
				gone := 1
				if c.away > 0 {
					require.Zero(t, readable(t, m, 40, 8<<10), "the store does not run")
					require.True(t, store.IsMiss(m.BatchRemove(t.Context(), []string{"k8"}, true)[0]), "it is not readable, and does not return")
					gone++
				}
				s = p.member(c.address, o)
				returns(t, m, 40-gone, 40, 8<<10)
				for _, key := range []string{"k7", "k8"}[:gone] {
					_, err := m.Get(t.Context(), key)
					require.True(t, store.IsMiss(err), "%v", err)
				}
				for _, x := range s.node.Segments() {
					require.True(t, slices.ContainsFunc(before, func(b model.Segment) bool { return b.ID == x.ID && b.Base == x.Base }), "%v", x)
				}
				require.NoError(t, m.Put(t.Context(), "new", content("new", 4<<10), one), "it takes new objects")
				segs, err := p.master.Segments(t.Context())
				require.NoError(t, err)
				for _, x := range segs {
					require.NotEmpty(t, x.Keeper, "an operator sees what keeps the memory")
				}
			})
		})
	}
}

// TestAStoreReturnsWithAnotherSize: the segments that fit stay.
func TestAStoreReturnsWithAnotherSize(t *testing.T) {
	for _, c := range []struct {
		size  uint64
		stays bool
	}{{8 << 20, true}, {4 << 20, true}, {1 << 20, false}} {
		t.Run(fmt.Sprint(c.size), func(t *testing.T) {
			eachVault(t, func(t *testing.T, k keeps) {
				p := newPool(t, nil)
				s, m := p.member("s:1", memberOptions{segments: []uint64{4 << 20}, vault: k}), p.member("c:1", memberOptions{})
				putAll(t, m, 40, 8<<10)
				s.stop()
				s = p.member("s:1", memberOptions{segments: []uint64{c.size}, vault: k})
				require.Equal(t, c.size, s.node.Size())
				require.Equal(t, len(s.node.Segments()), whole(t, k))
				if c.stays {
					returns(t, m, 40, 40, 8<<10)
				} else {
					require.Zero(t, readable(t, m, 40, 8<<10))
				}
			})
		})
	}
}

// TestWhatCannotBeUsedIsFreed: a store does not go on with memory whose ledger is damaged, is missing, or belongs to
// another cluster.
func TestWhatCannotBeUsedIsFreed(t *testing.T) {
	spoil := map[string]func(t *testing.T, k keeps, id string){
		"damaged": func(t *testing.T, k keeps, id string) {
			f := k.file(t, "ledger-"+id)
			defer f.Close()                                                                             //nolint:errcheck // It is memory.
			b, err := unix.Mmap(int(f.Fd()), 0, 2<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED) // A hugetlbfs permits no other way.
			require.NoError(t, err)
			b[4096+40] = '?'
			require.NoError(t, unix.Munmap(b))
		},
		"no ledger": func(t *testing.T, k keeps, id string) { k.drop(t, "ledger-"+id) },
		"no memory": func(t *testing.T, k keeps, id string) { k.drop(t, "memory-"+id) },
		"too little memory": func(t *testing.T, k keeps, id string) {
			f := k.file(t, "memory-"+id)
			defer f.Close() //nolint:errcheck // It is memory.
			err := f.Truncate(512 << 10)
			if errors.Is(err, unix.EPERM) {
				t.Skip("a memfd has a seal against it")
			}
			if errors.Is(err, unix.EINVAL) { // less than a huge page
				err = f.Truncate(0)
			}
			require.NoError(t, err)
		},
		"other cluster": func(t *testing.T, k keeps, _ string) {
			other, err := node.OpenKept(t.Context(), k.open, "another", silent())
			require.NoError(t, err)
			require.NoError(t, other.Close())
		},
	}
	for name, do := range spoil {
		t.Run(name, func(t *testing.T) {
			eachVault(t, func(t *testing.T, k keeps) {
				p := newPool(t, nil)
				o := memberOptions{segments: []uint64{1 << 20}, vault: k}
				s, m := p.member("s:1", o), p.member("c:1", memberOptions{})
				putAll(t, m, 10, 8<<10)
				id := s.node.Segments()[0].ID.String()
				s.stop()
				do(t, k, id)
				s = p.member("s:1", o)
				require.Zero(t, readable(t, m, 10, 8<<10))
				require.Equal(t, 1, whole(t, k))
				time.Sleep(15 * time.Minute) // The master forgets the process before.
				putAll(t, m, 10, 8<<10)
				s.stop()
				p.member("s:1", o)
				returns(t, m, 10, 10, 8<<10)
			})
		})
	}
}

// TestMemoryOfAnotherReleaseStays: a store that cannot read what another release has left frees nothing of it.
func TestMemoryOfAnotherReleaseStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, shelf := newPool(t, nil), newShelf(t)
		o := memberOptions{segments: []uint64{1 << 20, 1 << 20}, vault: shelf}
		s, m := p.member("s:1", o), p.member("c:1", memberOptions{})
		putAll(t, m, 10, 8<<10)
		ledger := shelf.files["ledger-"+s.node.Segments()[1].ID.String()]
		s.stop()
		layout := func(n byte) {
			_, err := ledger.WriteAt([]byte{n}, 8)
			require.NoError(t, err)
		}
		layout(2)
		_, err := node.OpenKept(t.Context(), shelf.open, "pool", silent())
		require.ErrorIs(t, err, errs.InvalidVersion.Err())
		require.ErrorContains(t, err, "its layout is 2, this release reads 1")
		require.Equal(t, 2, whole(t, shelf))
		layout(1)
		p.member("s:1", o)
		require.Equal(t, 10, readable(t, m, 10, 8<<10))
	})
}

// TestAMasterWithoutLedgersEmptiesThem: what a ledger says is wrong once such a master has used the memory. A master
// that keeps ledgers must not believe it afterwards.
func TestAMasterWithoutLedgersEmptiesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, shelf := newPool(t, nil), newShelf(t)
		p.member("s:1", memberOptions{segments: []uint64{1 << 20}, vault: shelf})
		m := p.member("c:1", memberOptions{})
		putAll(t, m, 10, 8<<10)
		require.Equal(t, 10, readable(t, m, 10, 8<<10))
		p.kill()
		p.master.set(newLedger())
		time.Sleep(10 * time.Second) // The store mounts there.
		require.Zero(t, whole(t, shelf), "the next process would believe it, too")
		p.boot()
		time.Sleep(10 * time.Second)
		require.Zero(t, readable(t, m, 10, 8<<10))
		time.Sleep(10 * time.Second) // Readers of the master before may rely on the memory until then.
		putAll(t, m, 10, 8<<10)
		require.Equal(t, 10, readable(t, m, 10, 8<<10))
	})
}

// TestTheVaultIsFilledAgain: a keeper that was restarted gets what it has to keep.
func TestTheVaultIsFilledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, shelf := newPool(t, nil), newShelf(t)
		o := memberOptions{segments: []uint64{1 << 20, 1 << 20}, vault: shelf}
		s, m := p.member("s:1", o), p.member("c:1", memberOptions{})
		putAll(t, m, 40, 8<<10)
		shelf.clear()
		time.Sleep(20 * time.Second)
		require.Equal(t, 2, whole(t, shelf))
		s.stop()
		p.member("s:1", o)
		returns(t, m, 40, 40, 8<<10)
	})
}

// TestUnmountedMemoryIsNotKept: what an operator takes out of the pool does not come back.
func TestUnmountedMemoryIsNotKept(t *testing.T) {
	eachVault(t, func(t *testing.T, k keeps) {
		p := newPool(t, nil)
		s := p.member("s:1", memberOptions{segments: []uint64{1 << 20}, vault: k})
		ids, err := s.node.MountSegment(t.Context(), node.MountOptions{Size: 1 << 20})
		require.NoError(t, err)
		require.Equal(t, 2, whole(t, k))
		require.NoError(t, s.node.UnmountSegments(t.Context(), ids, 0))
		require.Equal(t, 1, whole(t, k))
		ids = ids[:0]
		for _, x := range s.node.Segments() {
			ids = append(ids, x.ID)
		}
		require.NoError(t, s.node.UnmountSegments(t.Context(), ids, time.Minute))
		s.stop()
		require.Empty(t, k.kept(t))
	})
}
