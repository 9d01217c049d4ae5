package wheels

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// every are the releases of the wheel, the oldest one first.
var every = []string{"0.3.9", "0.3.10.post2", "0.3.11.post1", "0.3.12.post1", "0.3.13.post1"}

// versions are those that are tested: two in the short form.
var versions = func() []string {
	if full {
		return every
	}
	return []string{"0.3.10.post2", "0.3.13.post1"}
}()

// since reports whether a version is as new as another one of versions.
func since(version, first string) bool {
	return slices.Index(every, version) >= slices.Index(every, first)
}

// What the environment selects; doc.go explains it.
var (
	full    = os.Getenv("MOONCAKE_INTEROP") == "full"
	control = os.Getenv("MOONCAKE_INTEROP_MASTER") == "upstream"
)

var (
	bin       string // the folder with the built programs
	folder    string // the folder with the Python environments
	absent    string // why there are no wheels, empty where there are
	collected results
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := programs.Main(m, prepare)
	if err := collected.write(os.Getenv("MOONCAKE_INTEROP_OUT")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// prepare installs the wheels and builds our programs.
func prepare(dir string) error {
	if testing.Short() {
		absent = "real processes are not run with -short"
		return nil
	}
	if bin = os.Getenv(envBin); bin != "" {
		return locate()
	}
	if err := install(); err != nil {
		if full {
			return err
		}
		absent = err.Error()
		return nil
	}
	bin = dir
	return programs.Build(nil, "-o", dir+"/", "./cmd/mooncake")
}

// locate finds the folder of the Python environments.
func locate() error {
	folder = os.Getenv("MOONCAKE_INTEROP_FOLDER")
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("%w; set MOONCAKE_INTEROP_FOLDER to the folder for the Python environments", err)
		}
		folder = filepath.Join(cache, "mooncake-interop")
	}
	return nil
}

// install makes the Python environments that are not there yet.
func install() error {
	if err := locate(); err != nil {
		return err
	}
	python := os.Getenv("PYTHON")
	if python == "" {
		python = "python3"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "../../scripts/interop-setup.sh", append([]string{folder, python}, versions...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("upstream's wheels cannot be had: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// environment is the folder of a version.
func environment(version string) string { return filepath.Join(folder, version) }

// environ is the environment of a process of a version.
func environ(version string) []string {
	env := programs.Environ("MC_STORE_MEMCPY=0", "MC_LOG_LEVEL=WARNING", "PYTHONDONTWRITEBYTECODE=1")
	if onDevices {
		env = append(env, "MC_GID_INDEX=1") // That of RoCE v2.
	} else {
		env = append(env, "MC_TCP_BIND_ADDRESS=127.0.0.1", "MC_FORCE_TCP=1")
	}
	cuda, _ := filepath.Glob(filepath.Join(environment(version), "lib", "python*", "site-packages", "nvidia", "cuda_runtime", "lib"))
	if len(cuda) > 0 {
		env = append(env, "LD_LIBRARY_PATH="+cuda[0])
	}
	return env
}
