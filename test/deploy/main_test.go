package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// files is the tested folder.
const files = "../../deploy"

// root is the file system of the image "master": usr/bin with the static program and its names.
var root string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mooncake-deploy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	root = dir
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
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
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "mooncake"), "./cmd/mooncake")
	build.Dir = "../.."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the static program: %w\n%s", err, out)
	}
	names, err := imageNames()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Symlink("mooncake", filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	return nil
}
