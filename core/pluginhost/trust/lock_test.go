package trust

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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

var (
	sumA = strings.Repeat("a", 64)
	sumB = strings.Repeat("0", 64) // a number, if YAML may choose
)

func evictID(name string) plugin.ID { return plugin.ID{Kind: plugin.KindEvict, Name: name} }

func TestLockFileFormat(t *testing.T) {
	var l Lock
	require.NoError(t, l.Set(evictID("fifo"), "linux/arm64", Locked{"1.10", sumB}))
	require.NoError(t, l.Set(evictID("fifo"), "linux/amd64", Locked{"0.1.0", sumA}))
	require.NoError(t, l.Set(evictID("script"), AnyPlatform, Locked{"1", sumA}))
	text := l.Encode()
	assert.Equal(t, lockHead+`plugins:
  evict/fifo:
    linux/amd64: {version: "0.1.0", sha256: "`+sumA+`"}
    linux/arm64: {version: "1.10", sha256: "`+sumB+`"}
  evict/script:
    any: {version: "1", sha256: "`+sumA+`"}
`, string(text))
	again, err := ParseLock("x", text)
	require.NoError(t, err)
	assert.Equal(t, l, again)

	e, ok := l.Find(evictID("fifo"), "linux/arm64")
	assert.True(t, ok)
	assert.Equal(t, "1.10", e.Version)
	_, ok = l.Find(evictID("fifo"), "linux/riscv64")
	assert.False(t, ok)
	_, ok = l.Find(evictID("script"), "linux/riscv64")
	assert.True(t, ok, "a script is the same everywhere")
	assert.True(t, l.Remove(evictID("fifo")))
	assert.False(t, l.Remove(evictID("fifo")))
	require.NoError(t, l.Set(evictID("script"), "linux/amd64", Locked{"2", sumB}))
	_, ok = l.Find(evictID("script"), "linux/riscv64")
	assert.False(t, ok, "it is no script any more")

	empty, err := ParseLock("x", Lock{}.Encode())
	require.NoError(t, err)
	assert.Empty(t, empty.IDs())
}

// TestALockFileIsReadStrictly: every deviation is an error that names the line.
func TestALockFileIsReadStrictly(t *testing.T) {
	const head = "version: 1\nplugins:\n"
	good := "{version: '1', sha256: " + sumA + "}"
	for text, want := range map[string]string{
		"":                                           "the file is empty",
		"# nothing\n":                                "the file is empty",
		"version: 1\n":                               ":1: INVALID_PARAMS: the key plugins is missing",
		"plugins: {}\n":                              ":1: INVALID_PARAMS: the key version is missing",
		"version: 2\nplugins: {}\n":                  `:1: INVALID_PARAMS: version "2" of the format`,
		"version: [1]\nplugins: {}\n":                ":1: INVALID_PARAMS: version must be a single value",
		"- a\n":                                      ":1: INVALID_PARAMS: the file must be a mapping",
		"version: 1\nplugins: {}\nmore: 1\n":         `:3: INVALID_PARAMS: unknown key "more"`,
		"version: 1\nplugins: {}\nversion: 1":        `:3: INVALID_PARAMS: the key "version" is there twice`,
		"version: 1\nplugins: {}\n---\na: 1":         "after the end of the document",
		"version: 1\nplugins: {\n":                   "is not YAML",
		"version: 1\nplugins: [a\n b: c]: d":         "is not YAML",
		head + "  fifo: {}\n":                        ":3: INVALID_PARAMS: plugin id",
		head + "  evict/FIFO: {a/b: " + good + "}\n": ":3: INVALID_PARAMS: plugin name",
		head + "  evict/x:\n":                        ":3: INVALID_PARAMS: evict/x must be a mapping",
		head + "  evict/x: {}\n":                     ":3: INVALID_PARAMS: evict/x has no platform",
		head + "  evict/x: &a\n    linux/amd64: " + good + "\n  evict/y: *a\n":                        "must be a mapping",
		head + "  evict/x:\n    linux: " + good + "\n":                                                `:4: INVALID_PARAMS: platform "linux"`,
		head + "  evict/x:\n    any: " + good + "\n    linux/amd64: " + good + "\n":                   "for any platform and for single ones",
		head + "  evict/x:\n    linux/amd64: " + sumA + "\n":                                          ":4: INVALID_PARAMS: evict/x on linux/amd64 must be a mapping",
		head + "  evict/x:\n    linux/amd64: {version: '1'}\n":                                        ":4: INVALID_PARAMS: evict/x on linux/amd64 has no sha256",
		head + "  evict/x:\n    linux/amd64: {sha256: " + sumA + "}\n":                                "has no version",
		head + "  evict/x:\n    linux/amd64: {version: '1', sha256: abc}\n":                           ":4: INVALID_PARAMS: sha256",
		head + "  evict/x:\n    linux/amd64: {version: '1', sha256: " + strings.ToUpper(sumA) + "}\n": "in lower case",
		head + "  evict/x:\n    linux/amd64: {version: \"\\e[31m\", sha256: " + sumA + "}\n":          "printable",
		head + "  evict/x:\n    linux/amd64: {version: , sha256: " + sumA + "}\n":                     "version must be a single value",
		head + "  evict/x:\n    linux/amd64: {version: '1', sha256: " + sumA + ", md5: 1}\n":          `unknown key "md5"`,
		strings.Repeat("#", maxLockBytes+1):                                                           "at most 1024 KiB",
	} {
		_, err := ParseLock("f.yaml", []byte(text))
		if assert.ErrorIs(t, err, errs.InvalidParams.Err(), "%.80s", text) {
			assert.ErrorContains(t, err, want, "%.80s", text)
			assert.ErrorContains(t, err, "f.yaml")
			assert.ErrorContains(t, err, "correct it, or move it away", "plugins lock changes no file that it cannot read")
			assert.ErrorContains(t, err, "mooncake plugins lock")
		}
	}
}

func FuzzParseLock(f *testing.F) {
	var l Lock
	_ = l.Set(evictID("fifo"), "linux/arm64", Locked{"1.10", sumB})
	_ = l.Set(evictID("script"), AnyPlatform, Locked{`a "quoted" \ version`, sumA})
	f.Add(l.Encode())
	f.Add(Lock{}.Encode())
	f.Add([]byte("version: 1\nplugins: &a {evict/x: *a}\n"))
	f.Add([]byte("version: 1\nplugins: {<<: {}}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := ParseLock("f", text)
		if err != nil {
			if errs.CodeOf(err) != errs.InvalidParams {
				t.Fatal(err)
			}
			return
		}
		again, err := ParseLock("f", l.Encode())
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, l.Encode())
		}
		if string(again.Encode()) != string(l.Encode()) {
			t.Fatalf("not the same:\n%s\n%s", l.Encode(), again.Encode())
		}
	})
}

// TestBoundsOfALockFile: writers and readers refuse more entries than the bounds allow.
func TestBoundsOfALockFile(t *testing.T) {
	var l Lock
	for i := range maxPlatforms {
		require.NoError(t, l.Set(evictID("a"), fmt.Sprintf("linux/p%d", i), Locked{"1", sumA}))
	}
	full := maps.Clone(l.plugins[evictID("a")])
	require.ErrorIs(t, l.Set(evictID("a"), "linux/more", Locked{"1", sumA}), errs.InvalidParams.Err())
	l = Lock{plugins: map[plugin.ID]map[string]Locked{evictID("a"): full}}
	require.NoError(t, l.Set(evictID("a"), "linux/p1", Locked{"2", sumB}), "a new version of the same platform")
	for i := len(l.plugins); i < maxLocked; i++ {
		require.NoError(t, l.Set(evictID(fmt.Sprintf("b%d", i)), AnyPlatform, Locked{"1", sumA}))
	}
	text := l.Encode()
	_, err := ParseLock("f", text)
	require.NoError(t, err)
	require.ErrorIs(t, l.Set(evictID("c"), AnyPlatform, Locked{"1", sumA}), errs.InvalidParams.Err())
	one := "  evict/c:\n    any: {version: '1', sha256: " + sumA + "}\n"
	_, err = ParseLock("f", append(text, one...))
	require.ErrorContains(t, err, "f:5: INVALID_PARAMS: a lock file holds at most 1000 plugins")

	for name, e := range map[string]Locked{
		"no version":       {"", sumA},
		"a long version":   {strings.Repeat("1", maxVersionText+1), sumA},
		"a long checksum":  {"1", sumA + "a"},
		"before it":        {"1", "a" + sumA},
		"a short checksum": {"1", sumA[1:]},
	} {
		assert.ErrorIs(t, new(Lock).Set(evictID("a"), "linux/amd64", e), errs.InvalidParams.Err(), name)
	}
	assert.NoError(t, new(Lock).Set(evictID("a"), "linux/amd64", Locked{strings.Repeat("1", maxVersionText), sumA}))
}

// inMemory makes a folder in memory, if it can, where thousands of fsyncs take no time.
func inMemory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "lock")
	if err != nil {
		return testplugin.Folder(t)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestLockFileMachine makes random changes to a lock file, some of them concurrently, and compares
// it with a plain map.
func TestLockFileMachine(t *testing.T) {
	base := inMemory(t)
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(base, "m")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "plugins.lock.yaml")
		model := map[plugin.ID]map[string]Locked{}
		ids := rapid.SampledFrom([]plugin.ID{evictID("a"), evictID("b-c"), {Kind: plugin.KindTransport, Name: "a"}})
		platforms := rapid.SampledFrom([]string{"linux/amd64", "linux/arm64", "linux/s390x", AnyPlatform})
		entries := rapid.Custom(func(t *rapid.T) Locked {
			return Locked{rapid.StringMatching(`[0-9]{1,3}(\.[0-9]{1,3}){2}(-[a-z "\\]{1,9})?`).Draw(t, "version"), rapid.StringMatching(`[0-9a-f]{64}`).Draw(t, "sha256")}
		})
		set := func(id plugin.ID, p string, e Locked) {
			if p == AnyPlatform || model[id] == nil {
				model[id] = map[string]Locked{}
			}
			delete(model[id], AnyPlatform)
			model[id][p] = e
		}
		repeat(t, map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				id, p, e := ids.Draw(t, "id"), platforms.Draw(t, "platform"), entries.Draw(t, "entry")
				require.NoError(t, UpdateLock(context.Background(), path, func(l *Lock) error { return l.Set(id, p, e) }))
				set(id, p, e)
			},
			"remove": func(t *rapid.T) {
				id := ids.Draw(t, "id")
				_, there := model[id]
				require.NoError(t, UpdateLock(context.Background(), path, func(l *Lock) error {
					assert.Equal(t, there, l.Remove(id))
					return nil
				}))
				delete(model, id)
			},
			"several at once": func(t *rapid.T) {
				e := entries.Draw(t, "entry")
				var all sync.WaitGroup
				for _, p := range []string{"linux/amd64", "linux/arm64", "linux/riscv64"} {
					set(evictID("a"), p, e)
					all.Go(func() {
						assert.NoError(t, UpdateLock(context.Background(), path, func(l *Lock) error { return l.Set(evictID("a"), p, e) }))
					})
				}
				all.Wait()
			},
			"given up": func(t *rapid.T) {
				wrong := errors.New("wrong")
				before, _ := os.ReadFile(path)
				require.ErrorIs(t, UpdateLock(context.Background(), path, func(l *Lock) error {
					_ = l.Set(evictID("z"), "linux/amd64", Locked{"1", sumA})
					return wrong
				}), wrong)
				after, _ := os.ReadFile(path)
				require.Equal(t, before, after)
			},
			"refused": func(t *rapid.T) {
				require.ErrorIs(t, UpdateLock(context.Background(), path, func(l *Lock) error {
					return l.Set(evictID("a"), "linux/amd64", Locked{"1", "not a checksum"})
				}), errs.InvalidParams.Err())
			},
			"": func(t *rapid.T) {
				l, err := ReadLock(path)
				if errs.Is(err, errs.FileNotFound) {
					err = nil
				}
				require.NoError(t, err)
				require.Len(t, l.IDs(), len(model))
				for id, want := range model {
					platforms, got := l.Platforms(id)
					require.Equal(t, want, got)
					require.True(t, slices.IsSorted(platforms))
				}
				names, err := os.ReadDir(dir)
				require.NoError(t, err)
				require.LessOrEqual(t, len(names), 1, "nothing else is left in the folder")
			},
		})
	})
}

// repeat is rapid's Repeat with a third of its steps; each of these reads and writes files.
func repeat(t *rapid.T, actions map[string]func(*rapid.T)) {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(actions)), func(n string) bool { return n == "" })
	for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 1, 15).Draw(t, "actions") {
		actions[name](t)
		actions[""](t)
	}
}

func TestALockFileOfOthersIsRefused(t *testing.T) {
	dir := testplugin.Folder(t)
	path := filepath.Join(dir, "plugins.lock.yaml")
	_, err := ReadLock(path)
	require.ErrorIs(t, err, errs.FileNotFound.Err())
	set := func(l *Lock) error { return l.Set(evictID("a"), "linux/amd64", Locked{"1", sumA}) }
	require.NoError(t, UpdateLock(t.Context(), path, set))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), info.Mode().Perm())

	link := filepath.Join(testplugin.Folder(t), "link.yaml")
	require.NoError(t, os.Symlink(path, link))
	require.NoError(t, UpdateLock(t.Context(), link, func(l *Lock) error { return l.Set(evictID("b"), "linux/amd64", Locked{"1", sumA}) }))
	l, err := ReadLock(path)
	require.NoError(t, err)
	assert.Len(t, l.IDs(), 2, "what the link names is written")
	info, err = os.Lstat(link)
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&os.ModeSymlink)

	require.NoError(t, os.Chmod(path, 0o666))
	_, err = ReadLock(path)
	require.ErrorIs(t, err, errs.FileOpenFail.Err())
	assert.ErrorContains(t, err, "chmod go-w")
	require.Error(t, UpdateLock(t.Context(), path, set))
	require.NoError(t, os.Chmod(path, 0o644))
	require.NoError(t, os.Chmod(dir, 0o777))
	_, err = ReadLock(path)
	assert.ErrorContains(t, err, "chmod go-w "+dir)
	require.Error(t, UpdateLock(t.Context(), path, set))
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Mkdir(path+".d", 0o755))
	_, err = ReadLock(path + ".d")
	assert.ErrorContains(t, err, "not a regular file")

	held, err := os.Open(dir)
	require.NoError(t, err)
	defer held.Close()
	require.NoError(t, Reserve(t.Context(), held))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, UpdateLock(ctx, path, set), context.Canceled, "the update waits for the lock of the folder as long as the caller allows")
}
