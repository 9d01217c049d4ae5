package find

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// guarded is a folder with the script of a plugin, and a lock file beside it.
type guarded struct {
	*Finder
	t    *testing.T
	path string // of the plugin
	lock string
	log  *bytes.Buffer
}

var guardID = evictID("guarded")

func guard(t *testing.T, mode trust.Mode) guarded {
	t.Helper()
	dir := testplugin.Folder(t)
	g := guarded{t: t, lock: filepath.Join(testplugin.Folder(t), "plugins.lock.yaml"), log: &bytes.Buffer{}}
	g.path = testplugin.Put(t, dir, guardID.BinaryName(), testplugin.Script(t, testplugin.Manifest(guardID, 1)))
	g.Finder = finder(t, Options{Dirs: []string{dir}, Rules: trust.Rules{Mode: mode, Lock: g.lock}})
	return g
}

func finder(t *testing.T, o Options) *Finder {
	t.Helper()
	f, err := New(o)
	require.NoError(t, err)
	return f
}

// admit returns the checksum of the admitted image, computed again.
func (g guarded) admit() (Entry, string, error) {
	e, image, err := g.Admit(context.Background(), g.path, guardID, slog.New(slog.NewTextHandler(g.log, nil)))
	if err != nil {
		return e, "", err
	}
	defer image.Close()
	sum, err := Checksum(io.NewSectionReader(image.ReaderAt(), 0, image.Size))
	return e, sum, err
}

func (g guarded) lockIt() {
	g.t.Helper()
	p, err := ReadProgram(g.path)
	require.NoError(g.t, err)
	require.NoError(g.t, trust.UpdateLock(g.t.Context(), g.lock, func(l *trust.Lock) error {
		return l.Set(p.Manifest.ID, p.Platform, p.Locked())
	}))
}

// change replaces the program by another one.
func (g guarded) change() {
	g.t.Helper()
	content, err := os.ReadFile(g.path)
	require.NoError(g.t, err)
	next := testplugin.Put(g.t, filepath.Dir(g.path), "new", append(content, "changed"...))
	require.NoError(g.t, os.Rename(next, g.path))
}

func TestTrustNeedsALockFile(t *testing.T) {
	const key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"
	for _, r := range []trust.Rules{
		{Mode: trust.ModeLocked},
		{Mode: trust.ModeTOFU},
		{Mode: "unknown"},
		{Lock: "relative.yaml"},
		{Lock: "/x", Keys: []string{"relative.pub"}},
		{Lock: "/x", Keys: []string{key}, Mode: trust.ModeTOFU},
		{Lock: "/x", Keys: slices.Repeat([]string{key}, 17)},
	} {
		_, err := New(Options{Rules: r})
		assert.ErrorIs(t, err, errs.InvalidParams.Err(), "%+v", r)
	}
	_, err := New(Options{Dirs: []string{"relative"}})
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
	for _, r := range []trust.Rules{{}, {Mode: trust.ModeAuto}, {Mode: trust.ModeOff}, {Mode: trust.ModeLocked, Lock: "/x"}, {Secured: true}, {Lock: "/x", Keys: []string{key, "/x.pub"}}} {
		_, err := New(Options{Rules: r})
		assert.NoError(t, err, "%+v", r)
	}
}

// TestWhatIsAdmitted tests each mode with a program that was found, locked, and changed.
func TestWhatIsAdmitted(t *testing.T) {
	for mode, want := range map[trust.Mode][3]struct {
		verdict trust.Verdict
		runs    bool
	}{
		trust.ModeAuto:   {{trust.Unlocked, false}, {trust.IsLocked, true}, {trust.Mismatch, false}},
		trust.ModeLocked: {{trust.Unlocked, false}, {trust.IsLocked, true}, {trust.Mismatch, false}},
		trust.ModeTOFU:   {{trust.FirstUse, true}, {trust.IsLocked, true}, {trust.Mismatch, false}},
		trust.ModeOff:    {{trust.Unlocked, true}, {trust.IsLocked, true}, {trust.Mismatch, true}},
	} {
		t.Run(string(mode), func(t *testing.T) {
			g := guard(t, mode)
			for i, prepare := range []func(){func() {}, g.lockIt, g.change} {
				prepare()
				found := g.Find(plugin.ID{})[0]
				assert.Equal(t, want[i].verdict, found.Trust, i)
				assert.Equal(t, want[i].runs, found.Usable(), i)
				assert.Equal(t, !want[i].runs, found.Reason != "", found.Reason)
				e, sum, err := g.admit()
				if !want[i].runs {
					assert.ErrorIs(t, err, errs.FileOpenFail.Err(), i)
					assert.ErrorContains(t, err, g.path)
					continue
				}
				require.NoError(t, err, i)
				assert.Equal(t, found.SHA256, sum, "the image is what was looked at")
				assert.Equal(t, e.SHA256, sum)
				if mode == trust.ModeTOFU {
					assert.Equal(t, trust.IsLocked, e.Trust, "from its first use on")
				}
			}
			unchecked := 0
			if mode == trust.ModeOff {
				unchecked = 3
			}
			assert.Equal(t, unchecked, strings.Count(g.log.String(), "the program is run unchecked"))
			first := 0
			if mode == trust.ModeTOFU {
				first = 1
			}
			assert.Equal(t, first, strings.Count(g.log.String(), "first time and locked"))
		})
	}
}

// TestAdmittedUnderAnotherName: the file of one plugin is not admitted as another plugin.
func TestAdmittedUnderAnotherName(t *testing.T) {
	g := guard(t, trust.ModeTOFU)
	_, _, err := g.Admit(t.Context(), g.path, evictID("other"), slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, errs.FileOpenFail.Err())
	assert.ErrorContains(t, err, "it is evict/guarded, not evict/other")
	assert.NoFileExists(t, g.lock, "and not locked as another")
}

// TestWhatIsRefusedLeavesNothing: a host may try to start a refused program again and again. The
// copies that were checked leave no descriptors open.
func TestWhatIsRefusedLeavesNothing(t *testing.T) {
	g := guard(t, trust.ModeLocked)
	count := func() int {
		open, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(open)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // The collector would close forgotten files.
	const tries = 12
	before := count()
	for range tries {
		_, _, err := g.admit()
		require.ErrorIs(t, err, errs.FileOpenFail.Err(), "it is not locked")
	}
	g.lockIt()
	for range tries {
		_, _, err := g.Admit(t.Context(), g.path, evictID("other"), slog.New(slog.DiscardHandler))
		require.ErrorIs(t, err, errs.FileOpenFail.Err(), "it is another one")
	}
	assert.Less(t, count(), before+tries, "descriptors")
}

// TestTwoFirstUses: if two programs of one name are first used at the same time, one is locked and
// the other refused.
func TestTwoFirstUses(t *testing.T) {
	a, b := guard(t, trust.ModeTOFU), guard(t, trust.ModeTOFU)
	b.change()
	b.opts.Lock = a.lock
	var all sync.WaitGroup
	var mu sync.Mutex
	won := map[string]int{}
	for _, g := range []guarded{a, b, a, b} {
		all.Go(func() {
			g.log = &bytes.Buffer{}
			if _, sum, err := g.admit(); err == nil {
				mu.Lock()
				won[sum]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	assert.Len(t, won, 1)
	for sum, n := range won {
		assert.Equal(t, 2, n)
		l, err := trust.ReadLock(a.lock)
		require.NoError(t, err)
		locked, _ := l.Find(guardID, trust.HostPlatform())
		assert.Equal(t, sum, locked.SHA256)
	}
}

// TestTheFirstUseThatCameSecond: the lock file is read again before a program is added to it, so
// that an entry of another program that was added meanwhile counts.
func TestTheFirstUseThatCameSecond(t *testing.T) {
	g := guard(t, trust.ModeTOFU)
	stale := g.judge()
	old, im := examine(g.path, stale, launch.NewImage)
	require.NotNil(t, im)
	defer im.Close()
	require.Equal(t, trust.FirstUse, old.Trust)
	g.change()
	g.lockIt()
	before, err := os.ReadFile(g.lock)
	require.NoError(t, err)
	err = enter(t.Context(), stale, old, im)
	require.ErrorIs(t, err, errs.FileOpenFail.Err())
	assert.ErrorContains(t, err, "tampered with")
	after, err := os.ReadFile(g.lock)
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after))
}

// TestWhileItIsAdmitted: a writer keeps changing the file. Only a complete program is admitted, and
// only the locked one.
func TestWhileItIsAdmitted(t *testing.T) {
	g := guard(t, trust.ModeLocked)
	script, err := os.ReadFile(g.path)
	require.NoError(t, err)
	old := append(script, make([]byte, 1<<20)...)
	testplugin.Put(t, filepath.Dir(g.path), filepath.Base(g.path), old)
	g.lockIt()
	locked := g.Find(plugin.ID{})[0].SHA256
	evil := bytes.Clone(old)
	copy(evil[len(evil)/2:], "something else")
	f, err := os.OpenFile(g.path, os.O_WRONLY, 0)
	require.NoError(t, err)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, content := range [][]byte{evil, old} {
				_, _ = f.WriteAt(content[len(content)/2:len(content)/2+4096], int64(len(content)/2))
			}
		}
	}()
	for range 20 {
		if _, sum, err := g.admit(); err == nil {
			assert.Equal(t, locked, sum)
		}
	}
	close(stop)
	<-done
	require.NoError(t, f.Close())
	_, _, err = g.admit()
	require.NoError(t, err, "in the end it is the locked one")
}
