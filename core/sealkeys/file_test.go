package sealkeys

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// fileOf opens a file with a clock of its own.
func fileOf(t *testing.T, path string, warned *[]string) (*file, *time.Time) {
	k, err := Open("file:"+path, Options{Warn: func(m string, err error) { *warned = append(*warned, err.Error()) }})
	require.NoError(t, err)
	now := time.Now()
	f := k.(*file)
	f.now = func() time.Time { return now }
	return f, &now
}

// TestFileIsReadAgain: new keys are found at once where one is missing, and used after a while.
func TestFileIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	first, err := New(path, "default", time.Now())
	require.NoError(t, err)
	var warned []string
	f, now := fileOf(t, path, &warned)
	k, err := f.Current(t.Context(), "default")
	require.NoError(t, err)
	require.Equal(t, first.ID, k.ID)
	_, err = f.Current(t.Context(), "a")
	require.ErrorContains(t, err, "mooncake seal new")

	second, err := Rotate(path, "default", false, time.Now())
	require.NoError(t, err)
	k, _ = f.Current(t.Context(), "default")
	require.Equal(t, first.ID, k.ID, "what was read is young")
	*now = now.Add(2 * time.Second)
	got, err := f.Find(t.Context(), "default", second.ID)
	require.NoError(t, err, "a key that is missing is looked for")
	require.Equal(t, second.ID, got.ID)
	_, err = f.Find(t.Context(), "other", second.ID)
	require.ErrorIs(t, err, ErrUnknown, "keys are those of one tenant")
	k, _ = f.Current(t.Context(), "default")
	require.Equal(t, second.ID, k.ID)

	// What cannot be used changes nothing, and is said once.
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	for range 3 {
		*now = now.Add(11 * time.Second)
		k, err = f.Current(t.Context(), "default")
		require.NoError(t, err)
		require.Equal(t, second.ID, k.ID)
	}
	require.Len(t, warned, 1)
	require.NoError(t, os.Remove(path))
	third, err := New(path, "default", time.Now())
	require.NoError(t, err)
	*now = now.Add(11 * time.Second)
	k, _ = f.Current(t.Context(), "default")
	require.Equal(t, third.ID, k.ID)
	_, err = f.Find(t.Context(), "default", first.ID)
	require.ErrorIs(t, err, ErrUnknown)
}

func TestEdits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	now := time.Now()
	_, err := Rotate(path, "default", false, now)
	require.ErrorIs(t, err, os.ErrNotExist)
	a, err := New(path, "default", now)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	_, err = New(path, "default", now)
	require.ErrorContains(t, err, "rotate")
	_, err = New(path, "b", now)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o640))
	b, err := Rotate(path, "default", true, now)
	require.NoError(t, err)
	require.NotEqual(t, a.Key, b.Key)
	info, err = os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode(), "as its owner has set it")
	require.ErrorContains(t, Drop(path, "default", a.ID), "current")
	require.NoError(t, Use(path, "default", b.ID))
	require.ErrorContains(t, Use(path, "default", "none"), "no key")
	require.ErrorContains(t, Use(path, "c", b.ID), "no keys")
	require.NoError(t, Drop(path, "default", a.ID))
	require.ErrorContains(t, Drop(path, "default", a.ID), "no key")
	f, err := Read(path)
	require.NoError(t, err)
	require.Len(t, f.Tenants, 2)
	require.Len(t, f.Tenants["default"], 1)
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing else remains")
}

func TestBadFiles(t *testing.T) {
	good := `{"id": "k", "key": "` + strings.Repeat("AQID", 10) + `AQI=", "current": true}`
	for what, c := range map[string]struct {
		content string
		mode    os.FileMode
	}{
		"others may read it":   {`{"tenants": {"default": [` + good + `]}}`, 0o604},
		"may change it":        {`{"tenants": {"default": [` + good + `]}}`, 0o660},
		"it has no tenants":    {`{}`, 0o600},
		"unexpected end":       {`{`, 0o600},
		"0 of its 0 keys":      {`{"tenants": {"default": []}}`, 0o600},
		"2 of its 2 keys":      {`{"tenants": {"default": [` + good + `,` + strings.Replace(good, `"k"`, `"l"`, 1) + `]}}`, 0o600},
		"it is there twice":    {`{"tenants": {"default": [` + good + `,` + good + `]}}`, 0o600},
		"is not base64":        {`{"tenants": {"default": [{"id": "k", "key": "?", "current": true}]}}`, 0o600},
		"has 3 bytes":          {`{"tenants": {"default": [{"id": "k", "key": "AQID", "current": true}]}}`, 0o600},
		"are the same":         {`{"tenants": {"default": [{"id": "k", "key": "` + strings.Repeat("A", 43) + `=", "current": true}]}}`, 0o600},
		"an ID has 1 to":       {`{"tenants": {"default": [{"key": "AQID", "current": true}]}}`, 0o600},
		"more than 1048576 by": {strings.Repeat(" ", maxFile+1), 0o600},
	} {
		path := filepath.Join(t.TempDir(), "keys.json")
		require.NoError(t, os.WriteFile(path, []byte(c.content), 0o600))
		require.NoError(t, os.Chmod(path, c.mode))
		_, err := Open("file:"+path, Options{})
		require.ErrorContains(t, err, what)
		require.Contains(t, err.Error(), path)
		require.NotContains(t, err.Error(), "AQID", "no error shows a key")
	}
	_, err := Open("file:/nonexistent/keys", Options{})
	require.ErrorIs(t, err, errs.FileOpenFail.Err())
	_, err = Open("file:"+t.TempDir(), Options{})
	require.ErrorContains(t, err, "is not a file")
}

func TestPlaces(t *testing.T) {
	for _, p := range []string{"file:/etc/k", "vault:https://v:8200/transit/mooncake", "vault:https://v/a/b/{tenant}", "vault:http://127.0.0.1:8200/transit/k"} {
		require.NoError(t, Check(p), p)
	}
	for _, p := range []string{"", "file:", "file", "/etc/k", "vault:", "vault:http://v/transit/k", "vault:https://v/k", "vault:https://v", "vault:https:///a/b", "vault:https://v/a/b?x=y", "vault:https://u:p@v/a/b", "vault://v/a/b", "awskms:x"} {
		require.ErrorIs(t, Check(p), errs.InvalidParams.Err(), p)
		_, err := Open(p, Options{})
		require.ErrorIs(t, err, errs.InvalidParams.Err(), p)
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"tenants": {"default": [{"id": "k", "key": "` + strings.Repeat("AQID", 10) + `AQI=", "current": true}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, err := decode(b)
		if err != nil {
			return
		}
		for _, k := range keys {
			require.Equal(t, k.current, k.byID[k.current.ID])
			require.LessOrEqual(t, len(k.current.ID), maxID)
		}
	})
}
