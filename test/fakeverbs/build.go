package fakeverbs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// abiDir holds abi.h, below the root of the module.
const abiDir = "plugins/transport-rdma/internal/verbs"

// CFlagsEnv names an environment variable with further flags for the compiler, such as those of a
// sanitizer.
const CFlagsEnv = "FAKEVERBS_CFLAGS"

// Build compiles the library, or finds it in the build cache, and returns its path. old leaves out
// what was added after rdma-core 17. It skips the test only where there is no gcc.
func Build(t testing.TB, old bool) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("fakeverbs: the fake libibverbs is written in C and gcc is not installed")
	}
	path, err := build(t.Context(), gcc, old)
	if err != nil {
		t.Fatalf("fakeverbs: %v", err)
	}
	return path
}

func build(ctx context.Context, gcc string, old bool) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	src := filepath.Join(root, "test/fakeverbs/src")
	args := []string{"-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
		"-I" + filepath.Join(root, abiDir), "-Wl,-soname,libibverbs.so.1",
		"-Wl,--version-script=" + filepath.Join(src, "versions.map")}
	if old {
		args = append(args, "-DFAKE_OLD")
	}
	args = append(args, strings.Fields(os.Getenv(CFlagsEnv))...)
	files, err := filepath.Glob(filepath.Join(src, "*.c"))
	if err != nil {
		return "", err
	}
	dir, err := cacheDir(args, append(files, filepath.Join(src, "world.h"), filepath.Join(src, "fake.h"),
		filepath.Join(src, "versions.map"), filepath.Join(root, abiDir, "abi.h"), filepath.Join(root, abiDir, "abi_values.h")))
	if err != nil {
		return "", err
	}
	lib := filepath.Join(dir, "libibverbs.so.1")
	if _, err = os.Stat(lib); err == nil {
		return lib, nil
	}
	tmp, err := os.CreateTemp(dir, "build-*.so")
	if err != nil {
		return "", err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	cmd := exec.CommandContext(ctx, gcc, append(append(args, "-o", tmp.Name()), append(files, "-lpthread", "-ldl")...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	prune(filepath.Dir(dir))
	return lib, os.Rename(tmp.Name(), lib)
}

// keep is how long a build stays in the cache.
const keep = 30 * 24 * time.Hour

// prune removes what earlier sources left, so that the cache stays small.
func prune(cache string) {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return // Nothing to remove then.
	}
	for _, e := range entries {
		if i, err := e.Info(); err == nil && time.Since(i.ModTime()) > keep {
			_ = os.RemoveAll(filepath.Join(cache, e.Name())) // Tried again with the next build.
		}
	}
}

// cacheDir names a folder by all that the library is made of.
func cacheDir(args, files []string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, args)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, f, len(b))
		h.Write(b)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	dir := filepath.Join(base, "mooncake-fakeverbs", hex.EncodeToString(h.Sum(nil)[:12]))
	return dir, os.MkdirAll(dir, 0o755)
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, e := os.Stat(filepath.Join(dir, "test/fakeverbs/src")); e == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			err = errors.New("the sources of the fake are not above the working directory")
		}
		dir = up
	}
	return "", err
}
