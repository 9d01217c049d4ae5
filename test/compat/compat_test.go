package compat

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// release is one release: its program, and its plugins as programs.
type release struct {
	name      string
	tree      string // its sources
	host      string // the program
	plugins   string // the folder of its plugins
	transport bool   // whether its transports can be processes
}

// binaries lists the plugins of both releases by the folder of their program. A release may lack
// some.
func binaries() []string {
	return []string{
		"plugins/evict-lru/cmd/mooncake-plugin-evict-lru",
		"plugins/alloc-arena/cmd/mooncake-plugin-alloc-arena",
		"plugins/transport-tcp/cmd/mooncake-plugin-transport-tcp",
	}
}

// previous unpacks the sources of N-1.
func previous(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("previous")
	require.NoError(t, err)
	commit, _, _ := strings.Cut(string(text), "\n")
	// A tree without its history, such as a source archive, cannot know the release before.
	if r := command(t, "../..", "git", "cat-file", "-e", commit+"^{commit}"); r.Code != 0 {
		t.Skipf("the release before (%s) is not in the history of this checkout: %s", commit, r.Stderr)
	}
	dir := t.TempDir()
	archive := filepath.Join(dir, "previous.tar")
	require.Zero(t, command(t, "../..", "git", "archive", "-o", archive, commit).Code)
	require.Zero(t, command(t, dir, "tar", "xf", archive).Code)
	return dir
}

func command(t *testing.T, dir, name string, args ...string) programs.Result {
	t.Helper()
	return programs.Run(t, programs.Spec{Program: name, Args: args, Dir: dir, Limit: 10 * time.Minute})
}

// build makes the programs of a release.
func build(t *testing.T, name, tree string) release {
	t.Helper()
	tree, err := filepath.Abs(tree)
	require.NoError(t, err)
	dir := t.TempDir()
	r := release{name: name, tree: tree, host: filepath.Join(dir, "mooncake"), plugins: filepath.Join(dir, "plugins")}
	require.NoError(t, os.Mkdir(r.plugins, 0o755))
	wanted := []string{}
	for _, b := range binaries() {
		if _, err := os.Stat(filepath.Join(tree, b)); err == nil {
			wanted = append(wanted, "./"+b)
			r.transport = r.transport || strings.Contains(b, "transport")
		}
	}
	for _, job := range [][]string{{r.host, "./cmd/mooncake"}, append([]string{r.plugins + "/"}, wanted...)} {
		done := command(t, tree, "go", append([]string{"build", "-buildvcs=false", "-trimpath", "-o"}, job...)...)
		require.Zero(t, done.Code, "build %s: %s", name, done.Stderr)
	}
	for _, b := range wanted { // Whatever the umask is: what others can change is not run.
		require.NoError(t, os.Chmod(filepath.Join(r.plugins, filepath.Base(b)), 0o755))
	}
	return r
}

// outcome has the results of a demo that matter here.
type outcome struct {
	PagesVerified int `json:"pages_verified"`
	PagesWrong    int `json:"pages_wrong"`
	Evictions     int `json:"evictions"`
}

// demo runs the demo of a host with the plugins of a folder.
func demo(t *testing.T, host release, args ...string) outcome {
	t.Helper()
	args = append([]string{"demo", "-o", "json", "--workers", "1", "--requests", "60", "--page-size", "16KiB", "--pool-size", "4MiB",
		"--window", "64", "--evictor", "lru", "--allocator", "arena"}, args...)
	out := programs.Must(t, programs.Spec{Program: host.host, Args: args, Env: []string{"XDG_DATA_HOME=" + t.TempDir()}, Limit: 5 * time.Minute})
	var o outcome
	require.NoError(t, json.Unmarshal([]byte(out), &o), out)
	return o
}

// TestMatrix runs the policy, the allocator and, if the release can, the transport of each release
// as processes under the host of each.
func TestMatrix(t *testing.T) {
	programs.Long(t)
	if testing.Short() {
		t.Skip("builds two releases")
	}
	before := build(t, "N-1", previous(t))
	now := build(t, "N", "../..")
	for _, host := range []release{now, before} {
		for _, plugins := range []release{now, before} {
			t.Run(fmt.Sprintf("host %s, plugins %s", host.name, plugins.name), func(t *testing.T) {
				args := []string{"--plugin-dir", plugins.plugins, "--plugin-mode", "subprocess"}
				if host.transport && plugins.transport {
					args = append(args, "--transport", "tcp", "--transport-mode", "subprocess")
				}
				o := demo(t, host, args...)
				assert.Zero(t, o.PagesWrong)
				assert.Positive(t, o.PagesVerified)
				assert.Positive(t, o.Evictions, "the policy was asked")
			})
		}
	}
}
