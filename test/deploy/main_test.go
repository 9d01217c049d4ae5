package deploy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// files is the tested folder.
const files = "../../deploy"

// root is the file system of the image "master": usr/bin with the static program and its names.
var root string

func TestMain(m *testing.M) {
	os.Exit(programs.Main(m, func(dir string) error {
		root = dir
		return build()
	}))
}

// build makes the program as deploy/Dockerfile does, for any user of the container.
func build() error {
	bin := filepath.Join(root, "usr/bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(root, 0o755); err != nil {
		return err
	}
	if err := programs.Build([]string{"CGO_ENABLED=0"}, "-o", filepath.Join(bin, "mooncake"), "./cmd/mooncake"); err != nil {
		return err
	}
	names, err := imageNames()
	if err != nil {
		return err
	}
	return programs.Link(bin, names...)
}
