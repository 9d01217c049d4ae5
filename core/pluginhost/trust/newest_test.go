package trust

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"aead.dev/minisign"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// resign signs the lock file as if at another time.
func (s signed) resign(t *testing.T, comment string) {
	t.Helper()
	text, err := os.ReadFile(s.path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.path+SignatureSuffix, minisign.SignWithComments(s.key.private, text, comment, "a test"), 0o644))
}

// TestAnOlderSetIsRefused: a set that was signed before one that ran here does not run, until that is allowed.
func TestAnOlderSetIsRefused(t *testing.T) {
	s := newSigned(t)
	r := Rules{Lock: s.path, Keys: []string{s.key.Public()}, Record: filepath.Join(filepath.Dir(s.path), "state", "set.json")}
	of := func() error {
		_, err := ReadJudge(r).Of(evictID("a"), "1", sumA)
		return err
	}
	s.resign(t, "timestamp:2000\tfile:plugins.lock.yaml")
	require.NoError(t, of())
	require.NoFileExists(t, r.Record, "to look is not to run")
	require.NoError(t, ReadJudge(r).Ran(t.Context()))

	s.resign(t, "timestamp:1000\tfile:plugins.lock.yaml")
	err := of()
	require.ErrorContains(t, err, "it was signed 1970-01-01T00:16:40Z, and a set that was signed 1970-01-01T00:33:20Z has run here")
	require.ErrorContains(t, err, "mooncake plugins verify --allow-rollback --plugin-lock "+s.path)
	require.NoError(t, ReadJudge(r).Ran(t.Context()), "a set that is refused changes nothing")
	require.Error(t, of())
	s.resign(t, "release 7")
	require.ErrorContains(t, of(), "at a time that its signature does not say")

	s.resign(t, "release 8\ttimestamp:2000")
	require.NoError(t, of(), "the same set again")
	s.resign(t, "release 9\ttimestamp:3000")
	require.NoError(t, of())
	require.NoError(t, ReadJudge(r).Ran(t.Context()))
	s.resign(t, "release 8\ttimestamp:2000")
	require.Error(t, of())

	require.NoError(t, AllowRollback(t.Context(), r))
	require.NoError(t, of())
	s.resign(t, "release 7\ttimestamp:1999")
	require.Error(t, of(), "and no older one")
	require.ErrorIs(t, AllowRollback(t.Context(), Rules{Lock: s.path}), errs.InvalidParams.Err())

	_, err = SignLock(t.Context(), s.path, s.key, "release 10")
	require.NoError(t, err)
	require.NoError(t, of(), "our own comments have the time")
	by := ReadJudge(r).Signed()
	assert.WithinDuration(t, time.Now(), by.At(), time.Hour)
	assert.True(t, strings.HasPrefix(by.Comment, "release 10\t"), by.Comment)
}

// TestARecordThatCannotBeUsed: nothing runs where others can change the record, or it is damaged.
func TestARecordThatCannotBeUsed(t *testing.T) {
	s := newSigned(t)
	r := Rules{Lock: s.path, Keys: []string{s.key.Public()}, Record: filepath.Join(filepath.Dir(s.path), "set.json")}
	require.NoError(t, ReadJudge(r).Ran(t.Context()))
	require.NoError(t, ReadJudge(r).Unusable())
	require.NoError(t, os.Chmod(r.Record, 0o666))
	require.ErrorContains(t, ReadJudge(r).Unusable(), "can be changed by others")
	require.NoError(t, os.Chmod(r.Record, 0o644))
	require.NoError(t, os.WriteFile(r.Record, []byte("{"), 0o644))
	err := ReadJudge(r).Unusable()
	require.ErrorIs(t, err, errs.FileOpenFail.Err())
	require.ErrorContains(t, err, "remove it if the set in "+s.path)
	require.NoError(t, AllowRollback(t.Context(), r), "the way out")
	require.NoError(t, ReadJudge(r).Unusable())
}
