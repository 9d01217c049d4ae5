package plugins_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/clitest"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
)

// packageDir is the folder of this package, also for a test that changes the working directory.
var packageDir = func() string { dir, _ := os.Getwd(); return dir }()

func TestPluginsNew(t *testing.T) {
	t.Chdir(t.TempDir())
	e, stdout, stderr := clitest.New()
	sdk, err := filepath.Abs(filepath.Join(packageDir, "../../../../sdk"))
	require.NoError(t, err)
	require.Equal(t, command.ExitOK, cli.Run(e, []string{"mooncake", "plugins", "new", "evict", "mine", "--sdk", sdk}), stderr)
	assert.Contains(t, stdout.String(), "cd evict-mine\n  make test")
	mod, err := os.ReadFile("evict-mine/go.mod")
	require.NoError(t, err)
	assert.Contains(t, string(mod), "module example.com/evict-mine\n")
	assert.Contains(t, string(mod), "sdk => "+sdk)

	// Below a checkout the sdk needs no flag.
	require.NoError(t, os.Symlink(sdk, "sdk"))
	require.NoError(t, os.Mkdir("below", 0o755))
	t.Chdir("below")
	e, stdout, stderr = clitest.New()
	require.Equal(t, command.ExitOK, cli.Run(e, []string{"mooncake", "plugins", "new", "alloc", "mine", "--module", "corp.example/a", "--dir", "here"}), stderr)
	assert.Contains(t, stdout.String(), "It depends on the sdk in ")
	mod, err = os.ReadFile("here/go.mod")
	require.NoError(t, err)
	assert.Contains(t, string(mod), "module corp.example/a\n")
}

func TestPluginsNewRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	for says, args := range map[string][]string{
		"takes a kind and a name":                           {"evict"},
		`plugin kind "codec" is not one of`:                 {"codec", "mine"},
		`plugin name "Mine" must be`:                        {"evict", "Mine"},
		"evict/lru is built in":                             {"evict", "lru"},
		`in the language "cobol", only in go, python, rust`: {"evict", "mine", "--sdk", filepath.Join(packageDir, "../../../../sdk"), "--language", "cobol"},
		"no transport to start from in the language python": {"transport", "mine", "--sdk", filepath.Join(packageDir, "../../../../sdk"), "--language", "python"},
		"give --sdk PATH":                                   {"evict", "mine"},
		"there is no sdk in":                                {"evict", "mine", "--sdk", "nowhere"},
		"the module path cannot be used":                    {"evict", "mine", "--sdk", filepath.Join(packageDir, "../../../../sdk"), "--module", "a b"},
		"flag --force: unknown flag":                        {"evict", "mine", "--force"},
	} {
		t.Run(says, func(t *testing.T) {
			e, stdout, stderr := clitest.New()
			e.Program = "/nowhere/mooncake"
			assert.Equal(t, command.ExitUsage, cli.Run(e, append([]string{"mooncake", "plugins", "new"}, args...)))
			assert.Contains(t, stderr.String(), says)
			assert.Empty(t, stdout.String())
			left, err := os.ReadDir(".")
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}
