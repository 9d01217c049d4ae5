package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// bin is the folder with the built programs.
var bin string

func TestMain(m *testing.M) {
	os.Exit(programs.Main(m, func(dir string) error {
		bin = dir
		if err := programs.Build(nil, "-o", dir+"/", "./cmd/mooncake",
			"./plugins/alloc-arena/cmd/mooncake-plugin-alloc-arena", "./plugins/evict-lru/cmd/mooncake-plugin-evict-lru",
			"./plugins/evict-prefix/cmd/mooncake-plugin-evict-prefix", "./plugins/tier-file/cmd/mooncake-plugin-tier-file", "./plugins/transport-tcp/cmd/mooncake-plugin-transport-tcp"); err != nil {
			return err
		}
		if err := programs.Build(nil, "-o", filepath.Join(dir, "mooncake-plugin-evict-faulty"), "./core/pluginhost/internal/testplugin/evict"); err != nil {
			return err
		}
		// The admin sockets of these tests' processes, and of no others of the machine.
		runtime := filepath.Join(dir, "run")
		if err := os.Mkdir(runtime, 0o700); err != nil {
			return err
		}
		if err := os.Setenv("XDG_RUNTIME_DIR", runtime); err != nil {
			return err
		}
		return programs.Link(dir, "mooncake_master", "mooncake_client", "mooncake_http_metadata_server")
	}))
}

// mooncake runs a program to its end.
func mooncake(t *testing.T, args ...string) programs.Result {
	t.Helper()
	return program(t, "mooncake", nil, "", args...)
}

func program(t *testing.T, name string, env []string, stdin string, args ...string) programs.Result {
	t.Helper()
	return programs.Run(t, programs.Spec{Program: filepath.Join(bin, name), Args: args, Env: env, Stdin: stdin})
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}
