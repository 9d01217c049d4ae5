// Package capi_test builds libmooncake.so and programs in C against its headers, and runs
// them against a pool in this process.
package capi_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// root is the top of the repository.
const root = "../.."

// built is the folder with libmooncake.so. The first test that needs it builds it, and TestMain
// removes it.
var built struct {
	once   sync.Once
	folder string
	err    error
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if built.folder != "" {
			_ = os.RemoveAll(built.folder)
		}
		os.Exit(code)
	}))
}

// library builds libmooncake.so and returns its folder.
func library(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "capi"); built.err != nil {
			return
		}
		exports, err := filepath.Abs(root + "/cmd/libmooncake/exports.map")
		if built.err = err; err != nil {
			return
		}
		built.err = programs.Build([]string{"CGO_ENABLED=1"}, "-buildmode=c-shared",
			"-ldflags", "-extldflags=-Wl,--version-script="+exports+",-soname,libmooncake.so",
			"-o", built.folder+"/libmooncake.so", "./cmd/libmooncake")
	})
	require.NoError(t, built.err)
	return built.folder
}

// program compiles a C file of this folder against the library and returns the program.
func program(t *testing.T, source string) string {
	t.Helper()
	folder := library(t)
	out := filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(t.Context(), "gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I", root+"/cmd/libmooncake/include",
		"-o", out, "testdata/"+source, "-L", folder, "-lmooncake", "-lpthread", "-Wl,-rpath,"+folder)
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, string(text))
	return out
}

// run runs a program, for at most four minutes, and requires success.
func run(t *testing.T, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	text, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	require.NoError(t, err, string(text))
	t.Logf("%s", text)
}

// master starts a master in this process and returns its address.
func master(t *testing.T) string {
	t.Helper()
	loaded, err := config.Load(config.Options{Role: config.RoleMaster})
	require.NoError(t, err)
	m, err := app.StartLocalMaster(t.Context(), loaded.Config, builtin.Plugins(), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close(context.Background())) })
	return m.Address()
}
