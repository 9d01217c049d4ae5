package deploy

import (
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheProgramIsStatic(t *testing.T) {
	f, err := elf.Open(filepath.Join(root, "usr/bin/mooncake"))
	require.NoError(t, err)
	defer f.Close()
	libs, err := f.ImportedLibraries()
	require.NoError(t, err)
	assert.Empty(t, libs)
	for _, p := range f.Progs {
		assert.NotEqual(t, elf.PT_INTERP, p.Type, "it needs a loader")
	}
}

// TestEmptyRoot runs master and store as the image does: as its user, in a file system that holds
// the program alone, without /proc.
func TestEmptyRoot(t *testing.T) {
	if !isRoot() {
		t.Skip("only root may change the root folder")
	}
	attr := func() *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
	s := newSite(t)
	master := start(t, []string{
		"mooncake", "master", "--enable_http_metadata_server", "--rpc_address=127.0.0.1", "--metrics_host=127.0.0.1", "--http_metadata_server_host=127.0.0.1",
		"--rpc_port=" + s.local("50051"), "--metrics_port=" + s.local("9003"), "--http_metadata_server_port=" + s.local("8080"),
	}, nil, attr())
	s.passes(t, master, container{}, tcp("8080"))
	store := start(t, []string{"mooncake_store_service", "--port", s.local("8088")}, []string{
		"MOONCAKE_MASTER=127.0.0.1:" + s.local("50051"), "MOONCAKE_LOCAL_HOSTNAME=127.0.0.1", "MOONCAKE_GLOBAL_SEGMENT_SIZE=64mb",
	}, attr())
	s.passes(t, store, container{}, tcp("8088"))
	store.stop(t)
	master.stop(t)
}

// TestTheNamesOfTheImage compares the names in the Dockerfile with those that the Makefile gives
// the program.
func TestTheNamesOfTheImage(t *testing.T) {
	names, err := imageNames()
	require.NoError(t, err)
	b, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(b), "ALIASES  := ")
	require.True(t, found, "the Makefile lists the names")
	list, _, _ := strings.Cut(rest, "\nPLUGINS")
	assert.ElementsMatch(t, strings.Fields(strings.ReplaceAll(list, "\\\n", " ")), names)
}
