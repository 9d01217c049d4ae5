package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// write makes a configuration file and returns its path.
func write(t testing.TB, name, text string) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// load loads a role from arguments, environment and the text of a YAML file.
func load(t testing.TB, role Role, args, environ []string, file string) (*Loaded, error) {
	fs, rest, err := ParseArgs(role, args)
	if err != nil {
		return nil, err
	}
	require.Empty(t, rest)
	o := Options{Role: role, Flags: fs, Environ: environ}
	if file != "" {
		o.File = write(t, "conf.yaml", file)
	}
	return Load(o)
}

func mustLoad(t testing.TB, role Role, args, environ []string, file string) *Loaded {
	l, err := load(t, role, args, environ, file)
	require.NoError(t, err)
	return l
}

func warningTexts(l *Loaded) []string {
	var out []string
	for _, w := range l.Warnings {
		out = append(out, w.String())
	}
	return out
}
