package plugins_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/plugins"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
)

func TestSettingsOfARun(t *testing.T) {
	got, err := plugins.ParseSettings([]string{"a=1", "b=true", "c=x y", `d=["p","q"]`, "e.f.g=18446744073709551615", "e.f.h=", "a=2", `i="1"`, "j=k=l"})
	require.NoError(t, err)
	text, err := json.Marshal(got)
	require.NoError(t, err)
	assert.JSONEq(t, `{"a":2,"b":true,"c":"x y","d":["p","q"],"e":{"f":{"g":18446744073709551615,"h":""}},"i":"1","j":"k=l"}`, string(text))
	assert.Contains(t, string(text), "18446744073709551615", "no digit is lost")
	for _, bad := range []string{"a", "=1", ""} {
		_, err := plugins.ParseSettings([]string{bad})
		assert.Equal(t, command.ExitUsage, command.ExitCode(err), bad)
	}
}

func FuzzSettings(f *testing.F) {
	f.Add("a.b=1", "a=[")
	f.Add("..=", "a.b.c=null")
	f.Fuzz(func(t *testing.T, a, b string) {
		got, err := plugins.ParseSettings([]string{a, b})
		if err == nil {
			_, err = json.Marshal(got)
			require.NoError(t, err)
		}
	})
}

func TestRunRefusals(t *testing.T) {
	m := newMachine(t)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	script := filepath.Join(dir, "mooncake-plugin-evict-mute")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\nexit 0\n"), 0o755))
	for _, c := range []struct {
		code int
		text string
		args []string
	}{
		{command.ExitUsage, "one program", nil},
		{command.ExitUsage, "mooncake-plugin-<kind>-<name>", []string{filepath.Join(dir, "evict-lru")}},
		{command.ExitFailure, "no file mooncake-plugin-evict-lru", []string{filepath.Join(dir, "mooncake-plugin-evict-lru")}},
		{command.ExitFailure, "manifest", []string{script}},
		{command.ExitUsage, "name=value", []string{script, "--config", "x"}},
		{command.ExitUsage, "--for", []string{script, "--for", "-1s"}},
		{command.ExitUsage, "xml", []string{script, "-o", "xml"}},
		{command.ExitUsage, "loud", []string{script, "--log-level", "loud"}},
	} {
		code, _, errOut := m.mooncake(append([]string{"plugins", "run"}, c.args...)...)
		assert.Equal(t, c.code, code, "%q: %s", c.args, errOut)
		assert.Contains(t, errOut, c.text, "%q", c.args)
	}
}
