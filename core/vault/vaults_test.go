package vault

import (
	"bufio"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memdir"
)

// eachPlace runs a test with every vault that has owners, at its path.
func eachPlace(t *testing.T, run func(t *testing.T, path string)) {
	for name, start := range map[string]func(t *testing.T) string{
		"keeper":    func(t *testing.T) string { return startKeeper(t, DefaultKeeperConfig()) },
		"tmpfs":     func(t *testing.T) string { return memdir.Tmpfs(t) },
		"hugetlbfs": func(t *testing.T) string { return memdir.HugePages(t, 16) },
		"dax":       func(t *testing.T) string { return memdir.DAX(t) },
	} {
		t.Run(name, func(t *testing.T) { run(t, start(t)) })
	}
}

// eachVault runs a test with every vault.
func eachVault(t *testing.T, run func(t *testing.T, v Vault)) {
	eachPlace(t, func(t *testing.T, path string) { run(t, dial(t, path, "o")) })
	t.Run("systemd", func(t *testing.T) {
		_, env := manager(t)
		v, err := Systemd(env)
		require.NoError(t, err)
		run(t, v)
		require.NoError(t, v.Close())
	})
}

// TestVaults: a file is kept from Keep on under its name, once, as it was kept last, until Drop.
func TestVaults(t *testing.T) {
	eachVault(t, func(t *testing.T, v Vault) {
		f, err := v.Make("m", 0)
		require.NoError(t, err)
		info, err := f.Stat()
		require.NoError(t, err)
		require.Zero(t, info.Size(), "it is empty")
		require.NoError(t, fill(f, "made"))
		names, err := v.Names(t.Context())
		require.NoError(t, err)
		require.Empty(t, names, "it is not kept yet")
		_, err = v.Take(t.Context(), "m")
		require.ErrorIs(t, err, ErrNotKept)

		require.NoError(t, v.Keep(t.Context(), "m", f))
		require.NoError(t, v.Keep(t.Context(), "m", f), "again")
		require.NoError(t, f.Close())
		require.NoError(t, keep(v, "other", "two"))
		for _, text := range []string{"made", "anew", "last"} {
			if text != "made" {
				require.NoError(t, keep(v, "m", text))
			}
			names, err = v.Names(t.Context())
			require.NoError(t, err)
			require.ElementsMatch(t, []string{"m", "other"}, names)
			for range 2 {
				f, err := v.Take(t.Context(), "m")
				require.NoError(t, err)
				require.Equal(t, text, content(t, f))
			}
		}
		require.NoError(t, v.Drop(t.Context(), "m"))
		_, err = v.Take(t.Context(), "m")
		require.ErrorIs(t, err, ErrNotKept)
		require.NoError(t, v.Drop(t.Context(), "m"), "an unknown name is no error")
		f, err = v.Take(t.Context(), "other")
		require.NoError(t, err)
		require.Equal(t, "two", content(t, f))
	})
}

// TestNames: names that not every vault could carry are refused, of owners too.
func TestNames(t *testing.T) {
	bad := []string{"", "a b", "a:b", "a/b", "ä", string(make([]byte, maxName+1))}
	eachVault(t, func(t *testing.T, v Vault) {
		f, err := v.Make("m", 0)
		require.NoError(t, err)
		defer f.Close() //nolint:errcheck // It is memory.
		for _, name := range bad {
			require.ErrorContains(t, v.Keep(t.Context(), name, f), "the name", name)
		}
	})
	eachPlace(t, func(t *testing.T, path string) {
		for _, owner := range bad {
			_, err := as(t.Context(), path, owner)
			require.ErrorContains(t, err, "the name", owner)
		}
	})
}

// TestKilledStore: what a store kept outlives its kill -9, time and again.
func TestKilledStore(t *testing.T) {
	eachPlace(t, func(t *testing.T, path string) {
		for range 3 {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), roleVariable+"=store "+path)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			line, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "kept\n", line)
			_, err = as(t.Context(), path, "store")
			require.ErrorIs(t, err, ErrTaken, "it is alive")
			require.NoError(t, cmd.Process.Kill())
			require.Error(t, cmd.Wait())

			v := dial(t, path, "store")
			names, err := v.Names(t.Context())
			require.NoError(t, err)
			require.ElementsMatch(t, []string{"ledger-1", "segment-1"}, names)
			for range 2 {
				for _, name := range names {
					f, err := v.Take(t.Context(), name)
					require.NoError(t, err)
					require.Equal(t, "the bytes of "+name, content(t, f))
				}
			}
			require.NoError(t, v.Drop(t.Context(), "ledger-1"))
			_, err = v.Take(t.Context(), "ledger-1")
			require.ErrorIs(t, err, ErrNotKept)
			require.NoError(t, v.Close())
		}
	})
}

// TestStoresOfOneOwner: stores with the same name each have memory of their own, and the ones that return find it.
func TestStoresOfOneOwner(t *testing.T) {
	eachPlace(t, func(t *testing.T, path string) {
		s := settings(path)
		open := func() Vault {
			v, err := Open(t.Context(), s)
			require.NoError(t, err)
			return v
		}
		a := open()
		require.NoError(t, keep(a, "segment", "a"))
		b := open()
		names, err := b.Names(t.Context())
		require.NoError(t, err)
		require.Empty(t, names, "a lives and has its memory for itself")
		require.NoError(t, keep(b, "segment", "b"))
		require.NoError(t, a.Close())
		again := open()
		require.Equal(t, "a", kept(t, again))
		require.NoError(t, again.Close())
		require.NoError(t, b.Close())
		got := map[string]bool{}
		one, two := open(), open()
		got[kept(t, one)], got[kept(t, two)] = true, true
		require.Equal(t, map[string]bool{"a": true, "b": true}, got)
		require.NoError(t, one.Close())
		require.NoError(t, two.Close())
	})
}

// TestAnew: a store whose keeper was restarted does not take the memory of another one.
func TestAnew(t *testing.T) {
	eachPlace(t, func(t *testing.T, path string) {
		other, err := Open(t.Context(), settings(path))
		require.NoError(t, err)
		require.NoError(t, keep(other, "segment", "of another store"))
		require.NoError(t, other.Close())
		s := settings(path)
		s.Anew = true
		v, err := Open(t.Context(), s)
		require.NoError(t, err)
		names, err := v.Names(t.Context())
		require.NoError(t, err)
		require.Empty(t, names)
		require.NoError(t, v.Close())
	})
}

// TestStoresStartTogether: each gets a number of its own.
func TestStoresStartTogether(t *testing.T) {
	eachPlace(t, func(t *testing.T, path string) {
		vaults, all := [8]Vault{}, sync.WaitGroup{}
		for i := range vaults {
			all.Go(func() {
				v, err := Open(t.Context(), settings(path))
				if assert.NoError(t, err) {
					vaults[i] = v
				}
			})
		}
		all.Wait()
		for _, v := range vaults {
			if v != nil {
				require.NoError(t, v.Close())
			}
		}
	})
}

// TestAStoreWaitsForItsLastProcess: a process that was just killed still has its memory for a moment. The next one
// waits for it, and does not begin without memory.
func TestAStoreWaitsForItsLastProcess(t *testing.T) {
	eachPlace(t, func(t *testing.T, path string) {
		before, err := Open(t.Context(), settings(path))
		require.NoError(t, err)
		require.NoError(t, keep(before, "segment", "memory"))
		go func() {
			time.Sleep(100 * time.Millisecond)
			_ = before.Close()
		}()
		v, err := Open(t.Context(), settings(path))
		require.NoError(t, err)
		require.Equal(t, "memory", kept(t, v))
		require.NoError(t, v.Close())
	})
}
