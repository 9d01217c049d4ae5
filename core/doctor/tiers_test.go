package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/config"
)

// tierMachine is a machine with two disks that are fit for storage tiers.
func tierMachine(t *testing.T) (fstest.MapFS, *Machine, *Disk) {
	root := tree(t, "vm")
	root["sys/kernel/mm/transparent_hugepage/enabled"] = file("always [madvise] never")
	for i, name := range []string{"nvme0", "nvme1"} {
		root[name] = &fstest.MapFile{Mode: fs.ModeDir | 0o755, Sys: &syscall.Stat_t{Dev: uint64(i + 1)}}
	}
	m, d := machine(root), &Disk{FileSystem: "ext4", Free: 1 << 40, Write: 1.5e9, Read: 3e9}
	m.Disk = func(_ context.Context, path string) (Disk, error) {
		require.Contains(t, []string{"/nvme0", "/nvme1"}, path)
		return *d, nil
	}
	m.Ring = func() error { return nil }
	return root, &m, d
}

func tierSettings(t *testing.T, more ...string) Request {
	return settings(t, config.RoleStore, append([]string{"STORE_ENABLE_OFFLOAD=1", "STORE_SSD_OFFLOAD_PATH=/nvme0,/nvme1", "STORE_GLOBAL_SEGMENT_SIZE=1GB"}, more...)...)
}

// TestStorageTiers: each of these changes one thing about a machine that is in order.
func TestStorageTiers(t *testing.T) {
	const shared, folder = "storage tiers", "storage tier"
	type change = func(fstest.MapFS, *Machine, *Disk)
	on := func(f func(*Disk)) change { return func(_ fstest.MapFS, _ *Machine, d *Disk) { f(d) } }
	ring := func(err error) change {
		return func(_ fstest.MapFS, m *Machine, _ *Disk) { m.Ring = func() error { return err } }
	}
	thp := func(text string) change {
		return func(root fstest.MapFS, _ *Machine, _ *Disk) {
			root["sys/kernel/mm/transparent_hugepage/enabled"] = file(text)
		}
	}
	for _, c := range []struct {
		check, says string
		status      Status
		sets        []string
		change      change
	}{
		{shared, "2 folders, 1.2 GiB to read and write them; io_uring works; transparent huge pages: madvise", OK, nil, nil},
		{folder, "/nvme0: ext4, 1 TiB free, O_DIRECT, writes 1.50 GB/s, reads 3.00 GB/s", OK, nil, nil},
		{shared, "memory has nothing to keep", Warn, []string{"STORE_GLOBAL_SEGMENT_SIZE=0"}, nil},
		{shared, "no io_uring (operation not permitted); transparent huge pages: madvise threads read and write instead", Warn, nil, ring(syscall.EPERM)},
		{shared, "seccomp profile", Warn, nil, ring(syscall.EPERM)},
		{shared, "kernel.io_uring_disabled is 2; run as root: sysctl -w kernel.io_uring_disabled=0", Warn, nil, func(root fstest.MapFS, m *Machine, _ *Disk) {
			m.Ring = func() error { return syscall.EPERM }
			root["proc/sys/kernel/io_uring_disabled"] = file("2\n")
		}},
		{shared, "transparent huge pages: never", Warn, nil, thp("always madvise [never]")},
		{shared, "echo madvise >", Warn, nil, thp("always madvise [never]")},
		{shared, "/nvme0 and /nvme1 are on one file system", Warn, nil, func(root fstest.MapFS, _ *Machine, _ *Disk) { root["nvme1"].Sys = root["nvme0"].Sys }},
		{folder, "/nvme0 is no folder", Fail, nil, func(root fstest.MapFS, _ *Machine, _ *Disk) { root["nvme0"].Mode = 0o644 }},
		{folder, "/nvme0 is a symbolic link", Fail, nil, func(root fstest.MapFS, _ *Machine, _ *Disk) {
			root["nvme0"] = &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Data: []byte("nvme1")}
		}},
		{folder, "mkdir -p /nvme0", Fail, nil, func(root fstest.MapFS, _ *Machine, _ *Disk) { delete(root, "nvme0") }},
		{folder, "permission denied give the folder to the user of the node: chown -R 1000 /nvme0", Fail, nil, func(_ fstest.MapFS, m *Machine, _ *Disk) {
			m.Disk = func(context.Context, string) (Disk, error) { return Disk{}, syscall.EACCES }
		}},
		{folder, "tmpfs is memory", Warn, nil, on(func(d *Disk) { d.FileSystem, d.Memory = "tmpfs", true })},
		{folder, "nfs is a file system of another machine", Warn, nil, on(func(d *Disk) { d.FileSystem, d.Remote = "nfs", true })},
		{folder, "part of the container", Warn, nil, on(func(d *Disk) { d.FileSystem, d.Layer = "overlayfs", true })},
		{folder, "O_DIRECT: invalid argument name a folder on ext4 or xfs", Warn, nil, on(func(d *Disk) { d.NotDirect = syscall.EINVAL })},
		{folder, "a disk this slow", Warn, nil, on(func(d *Disk) { d.Read = 0.1e9 })},
		{folder, "a disk this slow", Warn, nil, on(func(d *Disk) { d.Write = 0.1e9 })},
		{folder, "speed not measured", OK, nil, on(func(d *Disk) { d.Write, d.Read = 0, 0 })},
		{folder, "the tier is smaller than the memory of the node (1 GiB)", Warn, nil, on(func(d *Disk) { d.Free = 1 << 29 })},
		{folder, "the tier is to have 2 TiB", Warn, []string{"STORE_OFFLOAD_SIZE_LIMIT=2TiB"}, nil},
		{folder, "with a tier of an earlier process", OK, []string{"STORE_OFFLOAD_SIZE_LIMIT=2TiB"}, func(root fstest.MapFS, _ *Machine, _ *Disk) {
			root["nvme0/mooncake-tier/VOLUME"] = file("")
		}},
		{shared, "tier/mine, which is not looked at", OK, []string{"STORE_TIER=mine", "STORE_TIER_STATE=/nvme0"}, nil},
		{shared, "/nvme7", Fail, []string{"STORE_TIER=mine", "STORE_TIER_STATE=/nvme7"}, nil},
	} {
		t.Run(c.says, func(t *testing.T) {
			root, m, d := tierMachine(t)
			if c.change != nil {
				c.change(root, m, d)
			}
			r := find(t, Run(t.Context(), *m, tierSettings(t, c.sets...)), c.check)
			require.Equal(t, c.status, r.Status, "%+v", r)
			require.Contains(t, fmt.Sprint(r.Found, " ", r.Why, " ", r.Do), c.says)
			require.Equal(t, r.Status == OK, r.Why == "" && r.Do == "", "what is not in order has a reason and a way out")
		})
	}
}

// TestStorageTierSettings: the plugin's own settings count, several findings are told together, and a role without
// tiers has no such check.
func TestStorageTierSettings(t *testing.T) {
	_, m, d := tierMachine(t)
	m.Ring = func() error { return syscall.ENOSYS }
	r := tierSettings(t)
	r.Config.Plugins.Tier = map[string]config.Plugin{"file": {Config: map[string]any{"io": "pread", "capacity_bytes": int64(2 << 40)}}}
	got := Run(t.Context(), *m, r)
	require.Equal(t, OK, find(t, got, "storage tiers").Status)
	require.Contains(t, find(t, got, "storage tier").Why, "2 TiB")
	r.Config.Plugins.Tier["file"].Config["io"] = "io_uring"
	require.Equal(t, Fail, find(t, Run(t.Context(), *m, r), "storage tiers").Status)

	d.FileSystem, d.Memory, d.NotDirect = "tmpfs", true, syscall.EINVAL
	got = Run(t.Context(), *m, tierSettings(t))
	require.Contains(t, find(t, got, "storage tier").Why, "after a reboot; the page cache")
	var js bytes.Buffer
	require.NoError(t, got.WriteJSON(&js))
	var report struct{ Checks []Result }
	require.NoError(t, json.Unmarshal(js.Bytes(), &report))
	folders := 0
	for _, x := range report.Checks {
		if x.Check == "storage tier" {
			folders++
		}
	}
	require.Equal(t, 2, folders)

	for _, r := range []Request{tierSettings(t, "STORE_ENABLE_OFFLOAD=0"), settings(t, config.RoleMaster, "MASTER_ENABLE_OFFLOAD=1")} {
		for _, x := range Run(t.Context(), *m, r).Results {
			require.NotContains(t, x.Check, "storage tier")
		}
	}
	before, after := find(t, Run(t.Context(), *m, tierSettings(t, "STORE_ENABLE_OFFLOAD=0")), "memory"), find(t, Run(t.Context(), *m, tierSettings(t)), "memory")
	require.Contains(t, before.Found, "; 1 GiB for segment and buffers")
	require.Contains(t, after.Found, "; 2.3 GiB for segment and buffers", "memory through which tiers are read and written")
}

// TestARealDisk tries a real folder and leaves nothing behind.
func TestARealDisk(t *testing.T) {
	dir := t.TempDir()
	d, err := tryDisk(t.Context(), dir)
	require.NoError(t, err)
	require.NotEmpty(t, d.FileSystem)
	require.NotZero(t, d.Free)
	require.NotZero(t, d.Device)
	if d.NotDirect == nil && d.Free > 64<<20 {
		require.Positive(t, d.Write)
		require.Positive(t, d.Read)
	} else {
		require.Zero(t, d.Write)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)

	_, err = tryDisk(t.Context(), filepath.Join(dir, "none"))
	require.ErrorIs(t, err, unix.ENOENT)
	_, err = tryDisk(t.Context(), "/proc") // A folder in which no user makes files.
	require.Error(t, err)

	if err := tryRing(); err != nil {
		var errno unix.Errno
		require.True(t, errors.As(err, &errno), err)
	}
}
