package plugins_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/plugins"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/pluginhost"
)

// TestASignedSet follows an operator: make a key, lock, sign, verify, list; then a plugin is changed and locked again
// without a signature.
func TestASignedSet(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", private(t))
	w := newWorkbench(t)
	w.plugin("evict/fifo", "1.0.0")
	keys, password := private(t), filepath.Join(private(t), "password")
	require.NoError(t, os.WriteFile(password, []byte("secret\n"), 0o600))
	var made plugins.Keys
	require.Equal(t, command.ExitOK, w.json(&made, "keygen", filepath.Join(keys, "set"), "--password-file", password))
	info, err := os.Stat(made.Private)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	code, _, errOut := w.run("keygen", filepath.Join(keys, "set"))
	assert.Equal(t, command.ExitFailure, code)
	assert.Contains(t, errOut, "exists")

	require.Equal(t, command.ExitOK, first(w.run("lock")))
	code, _, errOut = w.run("verify", "--key", made.Public)
	assert.Equal(t, command.ExitFailure, code)
	assert.Contains(t, errOut, "there is no "+w.lock+".minisig")
	code, _, errOut = w.run("sign", "--key", made.Private)
	assert.Equal(t, command.ExitUsage, code)
	assert.Contains(t, errOut, "give --password-file")
	assert.Equal(t, command.ExitUsage, first(w.run("sign")))

	code, out, _ := w.run("sign", "--key", made.Private, "--password-file", password, "--comment", "release 7")
	require.Equal(t, command.ExitOK, code)
	assert.Equal(t, "signed "+w.lock+" with key "+made.ID+": "+w.lock+".minisig\n", out)
	code, _, errOut = w.run("verify", "--key", made.Public)
	assert.Equal(t, command.ExitOK, code, errOut)
	assert.Contains(t, errOut, "is signed by key "+made.ID+": release 7")

	w.environ = append(w.environ, "MOONCAKE_PLUGINS_TRUSTED_KEYS="+made.Key)
	_, out, _ = w.run("list", "--no-live")
	assert.Regexp(t, `fifo .* locked, signed by `+made.ID, out)
	w.plugin("evict/fifo", "1.1.0")
	code, _, errOut = w.run("lock")
	assert.Equal(t, command.ExitOK, code)
	assert.Contains(t, errOut, "mooncake plugins sign --key FILE --plugin-lock "+w.lock)
	var list []pluginhost.Entry
	require.Equal(t, command.ExitOK, w.json(&list, "list", "--no-live"))
	for _, en := range list {
		if en.Name == "fifo" {
			assert.Empty(t, en.SignedBy)
			assert.Contains(t, en.Reason, "was changed after signing")
		}
	}
	assert.Equal(t, command.ExitFailure, first(w.run("verify")))

	require.Equal(t, command.ExitOK, first(w.run("sign", "--key", made.Private, "--password-file", password)))
	record := pluginhost.RecordOf(w.lock, []string{made.Key})
	require.NoError(t, os.MkdirAll(filepath.Dir(record), 0o755))
	require.NoError(t, os.WriteFile(record, []byte(`{"signed": 32503680000}`), 0o600))
	code, _, errOut = w.run("verify")
	assert.Equal(t, command.ExitFailure, code)
	assert.Contains(t, errOut, "a set that was signed 3000-01-01T00:00:00Z has run here")
	assert.Equal(t, command.ExitOK, first(w.run("verify", "--allow-rollback")))
	assert.Equal(t, command.ExitOK, first(w.run("verify")))
}

// TestRollbackInASignedSet: the rollback of one plugin changes the lock file, so that the signature of the set is of another one. Each
// refusal says what to do, and signing again is enough. With --keep-lock the set stays signed, and the plugin that is put back is refused.
func TestRollbackInASignedSet(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", private(t))
	w := newWorkbench(t)
	var made plugins.Keys
	require.Equal(t, command.ExitOK, w.json(&made, "keygen", filepath.Join(private(t), "set")))
	sign := func() {
		code, _, errOut := w.run("sign", "--key", made.Private)
		require.Equal(t, command.ExitOK, code, errOut)
	}
	file := filepath.Join(private(t), "fifo")
	for _, version := range []string{"1.0.0", "2.0.0"} {
		w.write(file, "evict/fifo", version, "#!/bin/false\x00")
		require.Equal(t, command.ExitOK, first(w.run("install", file, "--lock")))
	}
	sign()
	w.environ = append(w.environ, "MOONCAKE_PLUGINS_TRUSTED_KEYS="+made.Key)
	require.Equal(t, command.ExitOK, first(w.run("verify")))

	code, out, errOut := w.run("rollback", "evict/fifo")
	require.Equal(t, command.ExitOK, code, errOut)
	assert.Contains(t, out+errOut, "mooncake plugins sign --key FILE --plugin-lock "+w.lock)
	code, _, errOut = w.run("verify")
	assert.Equal(t, command.ExitFailure, code)
	assert.Contains(t, errOut, "was changed after signing")
	assert.Contains(t, errOut, "mooncake plugins sign")
	sign()
	require.Equal(t, command.ExitOK, first(w.run("verify")), "signed again")

	code, _, errOut = w.run("rollback", "evict/fifo", "--keep-lock")
	require.Equal(t, command.ExitOK, code, errOut)
	code, _, errOut = w.run("verify")
	assert.Equal(t, command.ExitFailure, code)
	assert.NotContains(t, errOut, "was changed after signing")
	assert.Contains(t, errOut, "mooncake plugins lock")
	require.Equal(t, command.ExitOK, first(w.run("rollback", "evict/fifo", "--keep-lock")))
	require.Equal(t, command.ExitOK, first(w.run("verify")), "a second rollback undoes the first")
}

func first(code int, _, _ string) int { return code }
