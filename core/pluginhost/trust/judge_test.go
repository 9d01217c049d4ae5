package trust

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestModesStandFor(t *testing.T) {
	for _, c := range []struct {
		mode Mode
		lock string
		want Mode
	}{
		{"", "", ModeOff},
		{ModeAuto, "", ModeOff},
		{"", "/x", ModeLocked},
		{ModeAuto, "/x", ModeLocked},
		{ModeTOFU, "/x", ModeTOFU},
		{ModeLocked, "/x", ModeLocked},
		{ModeOff, "/x", ModeOff},
	} {
		r := Rules{Mode: c.mode, Lock: c.lock}
		assert.Equal(t, c.want, r.Resolve(), "%+v", c)
		for _, strict := range []Rules{{Secured: true}, {Keys: []string{"/key"}}} {
			strict.Mode, strict.Lock = r.Mode, r.Lock
			want := c.want
			if c.mode == "" || c.mode == ModeAuto {
				want = ModeLocked
			}
			assert.Equal(t, want, strict.Resolve(), "%+v", strict)
		}
	}
}

// TestALockFileThatCannotBeUsed: no program is trusted, not even on first use, unless trust is off.
func TestALockFileThatCannotBeUsed(t *testing.T) {
	path := filepath.Join(testplugin.Folder(t), "plugins.lock.yaml")
	require.NoError(t, os.WriteFile(path, []byte("version: 1\nplugins: 7\n"), 0o644))
	for mode, refused := range map[Mode]bool{ModeLocked: true, ModeTOFU: true, ModeOff: false} {
		v, err := ReadJudge(Rules{Mode: mode, Lock: path}).Of(evictID("a"), "1", sumA)
		assert.Equal(t, Unlocked, v, mode)
		if refused {
			assert.ErrorContains(t, err, path+":2: ", mode)
		} else {
			assert.NoError(t, err, mode)
		}
	}
	require.NoError(t, os.Remove(path))
	for mode, refused := range map[Mode]bool{ModeLocked: true, ModeTOFU: false, ModeOff: false} {
		_, err := ReadJudge(Rules{Mode: mode, Lock: path}).Of(evictID("a"), "1", sumA)
		assert.Equal(t, refused, err != nil, mode)
	}
}

// TestPlatformsAreJudgedApart: an entry for another platform does not count here, and an entry for
// any platform does.
func TestPlatformsAreJudgedApart(t *testing.T) {
	other := "linux/s390x"
	require.NotEqual(t, other, HostPlatform())
	judge := func(platform string) Judge {
		j := Judge{rules: Rules{Mode: ModeLocked, Lock: "/lock"}}
		require.NoError(t, j.lock.Set(evictID("a"), platform, Locked{"1.2.3", sumA}))
		return j
	}
	for platform, want := range map[string]Verdict{other: Unlocked, HostPlatform(): IsLocked, AnyPlatform: IsLocked} {
		v, err := judge(platform).Of(evictID("a"), "1.2.3", sumA)
		assert.Equal(t, want, v, platform)
		assert.Equal(t, want != IsLocked, err != nil, platform)
	}
	v, err := judge(HostPlatform()).Of(evictID("a"), "1.2.4", sumB)
	assert.Equal(t, Mismatch, v)
	for _, part := range []string{sumA[:12], sumB[:12], "/lock", "1.2.3", "1.2.4", HostPlatform(), "mooncake plugins lock evict/a --plugin-lock /lock"} {
		assert.ErrorContains(t, err, part)
	}
	v, err = judge(HostPlatform()).Of(evictID("b"), "1", sumA)
	assert.Equal(t, Unlocked, v, "it is another plugin")
	assert.ErrorContains(t, err, "does not have it for "+HostPlatform())
}

// TestAScriptsFirstUse: it does not remove the entries of other machines that share the lock file.
func TestAScriptsFirstUse(t *testing.T) {
	path := filepath.Join(testplugin.Folder(t), "plugins.lock.yaml")
	require.NoError(t, UpdateLock(t.Context(), path, func(l *Lock) error {
		return l.Set(evictID("a"), "linux/s390x", Locked{"1", sumA})
	}))
	j := ReadJudge(Rules{Mode: ModeTOFU, Lock: path})
	v, err := j.Of(evictID("a"), "1", sumB)
	require.NoError(t, err)
	require.Equal(t, FirstUse, v)
	err = j.Enter(t.Context(), evictID("a"), AnyPlatform, Locked{"1", sumB})
	require.ErrorIs(t, err, errs.FileOpenFail.Err())
	assert.ErrorContains(t, err, "linux/s390x")
	assert.ErrorContains(t, err, "mooncake plugins lock evict/a --plugin-lock "+path)
	require.NoError(t, j.Enter(t.Context(), evictID("a"), HostPlatform(), Locked{"1", sumB}))
	require.NoError(t, j.Enter(t.Context(), evictID("b"), AnyPlatform, Locked{"1", sumB}))
	l, err := ReadLock(path)
	require.NoError(t, err)
	locked, _ := l.Find(evictID("a"), "linux/s390x")
	assert.Equal(t, sumA, locked.SHA256)
}
