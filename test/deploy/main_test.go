package deploy

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// files is the tested folder.
const files = "../../deploy"

var (
	// root is the file system of the image "master": usr/bin with the static program and its names.
	root string
	// etcd is the path of that program, in the version of go.mod; the image has it for the etcd members of masters.
	etcd string
)

func TestMain(m *testing.M) {
	os.Exit(programs.Main(m, func(dir string) error {
		root = filepath.Join(dir, "master")
		etcd = filepath.Join(root, "usr/bin/mooncake_etcd")
		return errors.Join(build(), programs.Build([]string{"CGO_ENABLED=0"}, "-o", etcd, "go.etcd.io/etcd/server/v3"))
	}))
}

// build makes the program as deploy/Dockerfile does, for any user of the container.
func build() error {
	bin := filepath.Join(root, "usr/bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
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
