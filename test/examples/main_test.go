package examples

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// bin is the folder with the program mooncake, plugins another one for plugin binaries.
var bin, plugins string

func TestMain(m *testing.M) {
	os.Exit(programs.Main(m, func(dir string) error {
		bin, plugins = filepath.Join(dir, "bin"), filepath.Join(dir, "plugins")
		if err := os.Mkdir(plugins, 0o755); err != nil {
			return err
		}
		return programs.Build(nil, "-o", bin+"/", "./cmd/mooncake")
	}))
}

// command runs a program in a folder and returns its standard output.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	return programs.Must(t, programs.Spec{Program: name, Args: args, Dir: dir})
}

// mooncake runs the program as a user would.
func mooncake(t *testing.T, args ...string) []byte {
	t.Helper()
	return []byte(command(t, "", filepath.Join(bin, "mooncake"), args...))
}
