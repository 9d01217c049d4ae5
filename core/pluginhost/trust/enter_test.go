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

// TestAnotherWasFaster: after the program was judged, another one of the same name may be added to
// the lock file first. The other one is trusted, and stays so.
func TestAnotherWasFaster(t *testing.T) {
	path := filepath.Join(testplugin.Folder(t), "plugins.lock.yaml")
	j := ReadJudge(Rules{Mode: ModeTOFU, Lock: path})
	v, err := j.Of(evictID("a"), "1", sumA)
	require.NoError(t, err)
	require.Equal(t, FirstUse, v)
	require.NoError(t, ReadJudge(Rules{Mode: ModeTOFU, Lock: path}).Enter(t.Context(), evictID("a"), HostPlatform(), Locked{"2", sumB}))

	err = j.Enter(t.Context(), evictID("a"), HostPlatform(), Locked{"1", sumA})
	assert.Equal(t, errs.FileOpenFail, errs.CodeOf(err))
	assert.ErrorContains(t, err, "tampered")
	assert.NoError(t, j.Enter(t.Context(), evictID("a"), HostPlatform(), Locked{"3", sumB}), "it is the same program")
	l, err := ReadLock(path)
	require.NoError(t, err)
	e, _ := l.Find(evictID("a"), HostPlatform())
	assert.Equal(t, Locked{"2", sumB}, e)
}

// TestAllOfTheChecksumCounts: the whole checksum is compared, although messages show only its
// beginning.
func TestAllOfTheChecksumCounts(t *testing.T) {
	j := Judge{rules: Rules{Mode: ModeLocked, Lock: "/lock"}}
	require.NoError(t, j.lock.Set(evictID("a"), HostPlatform(), Locked{"1", sumA}))
	last := byte('0')
	if sumA[63] == last {
		last = '1'
	}
	for _, sum := range []string{sumA[:63] + string(last), sumA[:12], ""} {
		v, err := j.Of(evictID("a"), "1", sum)
		assert.Equal(t, Mismatch, v, sum)
		assert.Error(t, err, sum)
	}
}

func TestNoLockFileIsSaid(t *testing.T) {
	path := filepath.Join(testplugin.Folder(t), "plugins.lock.yaml")
	_, err := ReadJudge(Rules{Mode: ModeLocked, Lock: path}).Of(evictID("a"), "1", sumA)
	assert.ErrorContains(t, err, "there is no lock file "+path)
}

// TestAProgramOfAnUnknownUser: in a container, folders of the system may belong to the user that
// stands for all unknown users. A program and the folder that it lies in may not.
func TestAProgramOfAnUnknownUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to others")
	}
	const unknown = 54321
	before := overflow
	overflow = func() int { return unknown }
	t.Cleanup(func() { overflow = before })
	above := testplugin.Folder(t)
	dir := filepath.Join(above, "plugins")
	require.NoError(t, os.Mkdir(dir, 0o755))
	path := testplugin.Put(t, dir, "program", []byte("x"))
	for own, want := range map[string]string{above: "", dir: "the folder " + dir + " belongs to user 54321", path: "the file " + path + " belongs to user 54321"} {
		require.NoError(t, os.Chown(own, unknown, -1))
		f, err := Open(path)
		if want == "" {
			require.NoError(t, err, own)
			require.NoError(t, f.Close())
		} else {
			assert.ErrorContains(t, err, want)
		}
		require.NoError(t, os.Chown(own, 0, -1))
	}
}
