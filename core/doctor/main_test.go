package doctor

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch/sandbox"
)

var update = flag.Bool("update", false, "rewrite testdata")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tree reads a recorded machine: "== path", then the file's lines; "== path -> target" is a
// link and "== path/ mode=0777" a folder.
func tree(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".tree"))
	require.NoError(t, err)
	root := fstest.MapFS{}
	for i, part := range strings.Split("\n"+string(text), "\n== ") {
		head, body, _ := strings.Cut(part, "\n")
		if i == 0 {
			continue
		}
		if path, target, link := strings.Cut(head, " -> "); link {
			root[path] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
		} else if path, mode, dir := strings.Cut(head, "/ mode="); dir {
			bits, err := strconv.ParseUint(mode, 8, 32)
			require.NoError(t, err)
			root[path] = &fstest.MapFile{Mode: fs.ModeDir | fs.FileMode(bits)}
		} else {
			root[head] = &fstest.MapFile{Data: []byte(body + "\n"), Mode: 0o644}
		}
	}
	return root
}

// machine is a recorded machine with its clock set and both services there.
func machine(root fs.FS) Machine {
	return Machine{
		Root: root, UID: 1000, Home: "/home/u/.local/share",
		Clock: func() (Clock, error) {
			return Clock{Now: time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC), Synchronised: true, MaxError: 3 * time.Millisecond}, nil
		},
		Checksum: func() (string, float64, error) { return "avx2", 29.3e9, nil },
		Sandbox:  func() sandbox.Kernel { return sandbox.Kernel{Landlock: 7, Seccomp: true} },
		Master:   func(context.Context, string) (string, error) { return "1.2.3", nil },
		Metadata: func(context.Context, string) error { return nil },
	}
}

func settings(t testing.TB, role config.Role, sets ...string) Request {
	t.Helper()
	var env []string
	for _, s := range sets {
		if !strings.HasPrefix(s, "MC_") {
			s = "MOONCAKE_" + s
		}
		env = append(env, s)
	}
	l, err := config.Load(config.Options{Role: role, Environ: env})
	require.NoError(t, err)
	return Request{Config: l.Config, Role: role, Timeout: time.Minute}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// The whole text for each recorded machine.
func TestRecordedMachines(t *testing.T) {
	refused := errors.New("connect: connection refused")
	for _, c := range []struct {
		name, tree string
		request    Request
		change     func(*Machine)
		want       Status
	}{
		{"vm-store", "vm", settings(t, config.RoleStore, "STORE_LOCAL_HOSTNAME=10.0.0.7:12345", "STORE_METADATA_SERVER=http://m:8080/metadata"), nil, Warn},
		{"vm-master", "vm", settings(t, config.RoleMaster, "MASTER_ENABLE_HTTP_METADATA_SERVER=true"), nil, OK},
		{"vm-all", "vm", settings(t, config.RoleAll), func(m *Machine) {
			m.Master = func(context.Context, string) (string, error) { return "", refused }
		}, Warn},
		{"server-store", "server", settings(t, config.RoleStore, "STORE_PROTOCOL=rdma", "STORE_USE_HUGEPAGE=true", "STORE_GLOBAL_SEGMENT_SIZE=900GB", "STORE_MMAP_ARENA_POOL_SIZE=56gb",
			"STORE_NUMA_NODE=1", "STORE_ENABLE_HTTP_SERVER=true"), nil, Warn},
		{"server-short", "server", settings(t, config.RoleStore, "STORE_PROTOCOL=rdma", "STORE_USE_HUGEPAGE=true", "STORE_GLOBAL_SEGMENT_SIZE=1TB", "STORE_NUMA_NODE=4"), nil, Fail},
		{"container-store", "container", settings(t, config.RoleStore, "STORE_PROTOCOL=rdma", "STORE_USE_HUGEPAGE=1", "STORE_GLOBAL_SEGMENT_SIZE=16GB", "STORE_ENABLE_HTTP_SERVER=true",
			"STORE_METADATA_SERVER=http://user:hush@m:8080/metadata", "PLUGINS_DIRS=/opt/none"), func(m *Machine) {
			m.Clock = func() (Clock, error) { return Clock{}, errors.New("adjtimex: operation not permitted") }
			m.Master = func(context.Context, string) (string, error) { return "", refused }
			m.Metadata = func(context.Context, string) error { return refused }
		}, Fail},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := machine(tree(t, c.tree))
			if c.change != nil {
				c.change(&m)
			}
			report := Run(t.Context(), m, c.request)
			var text bytes.Buffer
			require.NoError(t, report.WriteText(&text))
			golden(t, c.name+".txt", text.Bytes())
			require.Equal(t, c.want, report.Worst())
			require.NotContains(t, text.String(), "hush", "a password")
			for _, r := range report.Results {
				require.Equal(t, r.Status == OK, r.Why == "" && r.Do == "", "%s: what is not in order has a reason and a way out", r.Check)
				require.NotEmpty(t, r.Found, r.Check)
			}
		})
	}
	var js bytes.Buffer
	require.NoError(t, Run(t.Context(), machine(tree(t, "vm")), settings(t, config.RoleMaster)).WriteJSON(&js))
	golden(t, "vm-master.json", js.Bytes())
}
