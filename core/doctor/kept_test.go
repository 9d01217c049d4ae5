package doctor

import (
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/vault"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestKeptMemory: a directory that the node would refuse, and memory in it that no store takes, are told of, with what to
// do. Memory that the node goes on with is not asked for a second time.
func TestKeptMemory(t *testing.T) {
	refused := errs.WithHint(errs.New(errs.InvalidParams, "", "other users can write /m"), "chmod go-w /m")
	for _, c := range []struct {
		name   string
		found  vault.Found
		err    error
		status Status
		says   []string
	}{
		{name: "empty", status: OK, says: []string{"0 stores"}},
		{name: "its own", found: vault.Found{Left: []vault.Left{{Folder: "mooncake_cluster_localhost_0", Bytes: 4 << 30}}}, status: OK, says: []string{"1 store", "4 GiB", "the next store takes it"}},
		{name: "of a store that runs", found: vault.Found{Left: []vault.Left{{Folder: "other_host_0", Used: true}}}, status: OK, says: []string{"in use"}},
		{name: "stranded", found: vault.Found{Left: []vault.Left{{Folder: "other_host_0", Bytes: 3 << 30}}}, status: Warn, says: []string{"3 GiB stay occupied", "rm -r /m/FOLDER"}},
		{name: "refused", err: refused, status: Fail, says: []string{"other users can write", "chmod go-w /m"}},
		{name: "missing", err: fmt.Errorf("open: %w", fs.ErrNotExist), status: Warn, says: []string{"mkdir -m 700 /m", "waits 10 s"}},
		{name: "a socket", err: fmt.Errorf("open: %w", syscall.ENOTDIR), status: OK, says: []string{"a keeper there"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := machine(tree(t, "vm"))
			m.Kept = func(path string) (vault.Found, error) {
				require.Equal(t, "/m", path)
				return c.found, c.err
			}
			r := find(t, Run(t.Context(), m, settings(t, config.RoleStore, "STORE_KEEP=/m")), "kept memory")
			require.Equal(t, c.status, r.Status, "%+v", r)
			for _, text := range c.says {
				require.Contains(t, fmt.Sprint(r.Found, r.Details, r.Why, r.Do), text)
			}
		})
	}
	m := machine(tree(t, "vm"))
	m.Kept = func(string) (vault.Found, error) {
		return vault.Found{DAX: true, Left: []vault.Left{{Folder: "mooncake_cluster_localhost_0", Bytes: 64 << 30}}}, nil
	}
	sets := []string{"STORE_KEEP=/m", "STORE_GLOBAL_SEGMENT_SIZE=64GB", "STORE_LOCAL_BUFFER_SIZE=0", "STORE_DISABLE_MMAP_ARENA=1"}
	require.Equal(t, OK, find(t, Run(t.Context(), m, settings(t, config.RoleStore, sets...)), "memory").Status, "the device has the memory")
	require.Equal(t, OK, find(t, Run(t.Context(), m, settings(t, config.RoleStore, append(sets, "STORE_USE_HUGEPAGE=1")...)), "hugepages").Status, "it has the pages")
	m.Kept = func(string) (vault.Found, error) { return vault.Found{}, nil }
	require.Equal(t, Fail, find(t, Run(t.Context(), m, settings(t, config.RoleStore, sets...)), "memory").Status)
	require.Equal(t, Fail, find(t, Run(t.Context(), m, settings(t, config.RoleStore, append(sets, "STORE_USE_HUGEPAGE=1")...)), "hugepages").Status)
}
