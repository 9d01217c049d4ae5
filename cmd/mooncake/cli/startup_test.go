package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/config"
)

func TestVersionFlag(t *testing.T) {
	for _, args := range [][]string{
		{"mooncake", "--version"}, {"mooncake", "master", "--version"}, {"mooncake", "master", "-version"}, {"/opt/mooncake_master", "--rpc_port=1", "--version"},
		{"mooncake_client", "-version=true"}, {"mooncake_http_metadata_server", "--version"},
	} {
		e, stdout, stderr := testEnv()
		assert.Equal(t, command.ExitOK, run(e, args), "%v: %s", args, stderr)
		assert.Regexp(t, `^mooncake \S+ \((revision [0-9a-f]+, )?go[0-9.]+.*, linux/\S+\)\n$`, stdout.String(), args)
		assert.Empty(t, stderr.String(), args)
	}
	assert.Equal(t, "mooncake v1 (revision abc, go1, linux/arm64)", command.Version{Version: "v1", Revision: "abc", Go: "go1", Platform: "linux/arm64"}.String())
}

// Under upstream's names a wrong flag ends with upstream's exit code.
func TestUpstreamExitCode(t *testing.T) {
	for program, want := range map[string]int{"mooncake": command.ExitUsage, "mooncake_master": command.ExitFailure} {
		for _, flag := range []string{"--rpc_prot=1", "--eviction_ratio=2", "--enable_ha", "--put_start_release_timeout_sec=1"} {
			args := []string{program, flag}
			if program == "mooncake" {
				args = []string{program, "master", flag}
			}
			e, _, stderr := testEnv()
			assert.Equal(t, want, run(e, args), args)
			assert.Contains(t, stderr.String(), strings.SplitN(flag, "=", 2)[0])
		}
	}
}

// Where lines go: a file, standard error or both.
func TestWhereLogLinesGo(t *testing.T) {
	for _, c := range []struct {
		args           []string
		file, infoSeen bool
	}{
		{nil, false, true},
		{[]string{"--log_dir", "DIR"}, true, false},
		{[]string{"-log_dir=DIR", "-alsologtostderr"}, true, true},
		{[]string{"-log_dir=DIR", "-logtostderr"}, false, true},
		{[]string{"-log_dir=DIR", "-logtostderr", "-alsologtostderr"}, false, true},
		{[]string{"-log_dir=DIR", "-logtostderr=0"}, true, false},
		{[]string{"-log_dir=DIR", "-minloglevel=2", "-alsologtostderr"}, true, false},
	} {
		dir := t.TempDir()
		var args []string
		for _, a := range c.args {
			args = append(args, strings.ReplaceAll(a, "DIR", dir))
		}
		fs, _, err := config.ParseArgs(config.RoleMaster, args)
		require.NoError(t, err)
		loaded, err := config.Load(config.Options{Role: config.RoleMaster, Flags: fs})
		require.NoError(t, err)
		e, _, stderr := testEnv()
		log, err := e.Logger(loaded, config.RoleMaster)
		require.NoError(t, err)
		log.Info("a quiet line")
		log.Error("a loud line")
		e.Close()
		text, err := os.ReadFile(filepath.Join(dir, "mooncake_master.INFO"))
		assert.Equal(t, c.file, err == nil, c.args)
		if c.file {
			assert.Contains(t, string(text), "a loud line", c.args)
			assert.Equal(t, loaded.Config.Log.Level == "info", strings.Contains(string(text), "a quiet line"), c.args)
		}
		assert.Equal(t, c.infoSeen, strings.Contains(stderr.String(), "a quiet line"), c.args)
		assert.Contains(t, stderr.String(), "a loud line", c.args)
	}
}

func TestALogDirectoryThatIsNotThere(t *testing.T) {
	e, _, stderr := testEnv()
	assert.Equal(t, command.ExitFailure, run(e, []string{"mooncake", "master", "--log_dir", filepath.Join(t.TempDir(), "none")}))
	assert.Contains(t, stderr.String(), "must exist and be writable")
}

func TestAnInterfaceThatIsNotThere(t *testing.T) {
	e, _, stderr := testEnv()
	assert.Equal(t, command.ExitFailure, run(e, []string{"mooncake", "master", "--rpc_interface=nosuch0"}))
	assert.Contains(t, stderr.String(), `interface "nosuch0"`)
	assert.NotContains(t, stderr.String(), "Master service started")
}
