package volume

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTornWrite: whatever a write leaves of its copy, the other one counts.
func TestTornWrite(t *testing.T) {
	dir := t.TempDir()
	_, err := Read(dir)
	require.ErrorIs(t, err, ErrNone)
	v := New(1 << 30)
	for range 4 {
		require.NoError(t, Write(dir, &v))
		got, err := Read(dir)
		require.NoError(t, err)
		require.Equal(t, v, got)
		last := v
		v.Generation++
		require.NoError(t, Write(dir, &v))
		path := filepath.Join(dir, file)
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, torn := range []int{0, 8, 40, 512} {
			b := bytes.Clone(whole)
			clear(b[int(v.Writes%2)*page+torn:][:page-torn])
			require.NoError(t, os.WriteFile(path, b, 0o600))
			got, err = Read(dir)
			require.NoError(t, err)
			if torn < 49 {
				require.Equal(t, last, got, "torn after %d bytes", torn)
			} else {
				require.Equal(t, v, got, "the rest of the page is zero anyway")
			}
		}
		require.NoError(t, os.WriteFile(path, whole, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, file), make([]byte, 2*page), 0o600))
	_, err = Read(dir)
	require.ErrorIs(t, err, ErrNone)
}

// TestLock: each process gets a folder of its own, and a folder that was given back is used again.
func TestLock(t *testing.T) {
	path := t.TempDir()
	first, a, err := Lock(path)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(path, "mooncake-tier"), first)
	second, b, err := Lock(path)
	require.NoError(t, err)
	defer b.Close()
	require.Equal(t, filepath.Join(path, "mooncake-tier-1"), second)
	a.Close()
	again, c, err := Lock(path)
	require.NoError(t, err)
	require.Equal(t, first, again)
	defer c.Close()
	for range Most - 2 {
		_, f, err := Lock(path)
		require.NoError(t, err)
		defer f.Close()
	}
	_, _, err = Lock(path)
	require.ErrorContains(t, err, "in use by other processes")
	_, _, err = Lock(filepath.Join(path, "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// FuzzDecode: what is accepted is what encode writes.
func FuzzDecode(f *testing.F) {
	b := make([]byte, page)
	encode(b, New(5))
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		v, ok := decode(b)
		if !ok {
			return
		}
		again := make([]byte, page)
		encode(again, v)
		got, ok := decode(again)
		require.True(t, ok)
		require.Equal(t, v, got)
	})
}
