//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

package verbs_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/test/fakeverbs"
)

func TestOpenUnavailable(t *testing.T) {
	text := filepath.Join(t.TempDir(), "libibverbs.so.1")
	check(t, os.WriteFile(text, []byte("no library"), 0o600))
	for path, reason := range map[string]string{
		"/nonexistent/libibverbs.so.1": "No such file",
		text:                           "",
		"libm.so.6":                    "ibv_fork_init",
	} {
		lib, err := verbs.Open(path)
		if lib != nil || !errors.Is(err, verbs.ErrUnavailable) {
			t.Fatalf("%s: got %v, %v", path, lib, err)
		}
		_, why, ok := strings.Cut(err.Error(), ": "+path+": ")
		if !ok || why == "" || !strings.Contains(why, reason) {
			t.Errorf("%s: the error does not say why: %v", path, err)
		}
	}
}

func TestOpenTwiceIsOneLibrary(t *testing.T) {
	r := newFake(t, fakeverbs.Config{Devices: 1})
	t.Setenv(verbs.LibraryEnv, r.w.Path())
	again, err := verbs.Open("")
	check(t, err)
	if again.Path() != r.w.Path() {
		t.Errorf("opened %s", again.Path())
	}
	check(t, again.ForkInit())
	if r.w.Calls("ibv_fork_init") != 1 {
		t.Error("the call went to another library")
	}
}

func TestDevices(t *testing.T) {
	r := newRig(t)
	list, err := r.lib.Devices()
	check(t, err)
	if len(list) != 2 || list[0].Name != r.names[0] || list[0].IWARP {
		t.Errorf("devices are %+v", list)
	}
	if !strings.HasPrefix(list[0].UverbsPath, "/dev/infiniband/uverbs") || filepath.Base(list[0].SysfsPath) != r.names[0] {
		t.Errorf("paths are %+v", list[0])
	}
	_, err = r.lib.OpenDevice("nosuch0")
	wantErr(t, err, syscall.ENODEV)
}

func TestAttributes(t *testing.T) {
	r := newRig(t)
	c, err := r.lib.OpenDevice(r.names[0])
	check(t, err)
	closing(t, c)
	a := c.Attr()
	if a.Ports != 1 || a.MaxQP < 1 || a.MaxQPWR < 16 || a.MaxCQE < 16 || a.MaxMRSize < 1<<30 || a.MaxMR < 1 ||
		a.MaxReadsIn < 1 || a.MaxReadsOut < 1 || a.CompletionVectors < 1 {
		t.Errorf("attributes are %+v", a)
	}
	p, err := c.QueryPort(1)
	check(t, err)
	if !p.Active || p.ActiveMTU != 4096 || p.GIDs < 2 ||
		p.MaxMessage < 1<<20 || p.Speed == 0 {
		t.Errorf("the port is %+v", p)
	}
	if !onDevices() && p.Speed != 100_000_000_000 {
		t.Errorf("4 lanes of EDR are %d b/s", p.Speed)
	}
	for _, port := range []int{-1, 0, 2, 256} {
		_, err = c.QueryPort(port)
		wantErr(t, err, syscall.EINVAL)
	}
}

func TestPortSpeedBeyondNDR(t *testing.T) {
	r := newFake(t, fakeverbs.Config{Devices: 1})
	r.w.Change(0, func(d *fakeverbs.Device) { d.Speed = 256 })
	c, err := r.lib.OpenDevice("fake0")
	check(t, err)
	closing(t, c)
	p, err := c.QueryPort(1)
	check(t, err)
	if p.Speed != 800_000_000_000 {
		t.Errorf("4 lanes of XDR are %d b/s", p.Speed)
	}
}

func TestGIDs(t *testing.T) {
	r := newRig(t)
	c, err := r.lib.OpenDevice(r.names[1])
	check(t, err)
	closing(t, c)
	list, err := c.GIDs(1)
	check(t, err)
	found := false
	for i, g := range list {
		one, err := c.GID(1, g.Index)
		check(t, err)
		if one != g {
			t.Errorf("entry %d is %+v alone and %+v in the table", i, one, g)
		}
		if g.Index == r.gid {
			found = true
			if netip.AddrFrom16(g.GID).Unmap().String() != "10.77.0.2" || g.Type != gid.RoCEv2 || g.Netdev == "" {
				t.Errorf("entry %d is %+v", g.Index, g)
			}
		}
	}
	if !found {
		t.Errorf("index %d is missing in %+v", r.gid, list)
	}
	p, err := c.QueryPort(1)
	check(t, err)
	empty, err := c.GID(1, p.GIDs-1)
	check(t, err)
	if !empty.GID.Zero() {
		t.Errorf("the last entry is %+v", empty)
	}
	for _, bad := range [][2]int{{0, 0}, {2, 0}, {1, -1}, {1, p.GIDs}} {
		if _, err = c.GID(bad[0], bad[1]); err == nil {
			t.Errorf("port %d index %d was accepted", bad[0], bad[1])
		}
	}
}

// An old library has no types of GIDs: they come from sysfs.
func TestOldLibrary(t *testing.T) {
	r := newFake(t, fakeverbs.Config{Devices: 1, Old: true})
	attrs := filepath.Join(r.w.Sysfs(0), "ports/1/gid_attrs")
	for name, content := range map[string]string{"types/3": "RoCE v2\n", "ndevs/3": "lo\n", "types/0": "IB/RoCE v1\n"} {
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(attrs, name)), 0o755))
		check(t, os.WriteFile(filepath.Join(attrs, name), []byte(content), 0o600))
	}
	c, err := r.lib.OpenDevice("fake0")
	check(t, err)
	closing(t, c)
	list, err := c.GIDs(1)
	check(t, err)
	if len(list) != 3 || list[0].Type != gid.RoCEv1 || list[2].Type != gid.RoCEv2 || list[2].Netdev != "lo" || list[2].Index != 3 {
		t.Errorf("GIDs are %+v", list)
	}
	p, err := c.QueryPort(1)
	check(t, err)
	if p.Speed != 100_000_000_000 || !p.Active {
		t.Errorf("the port is %+v", p)
	}
	pd, err := c.AllocPD()
	check(t, err)
	closing(t, pd)
	_, err = pd.RegDMABuf(0, 0, 4096, 0, all)
	wantErr(t, err, verbs.ErrUnsupported)
	mr, err := pd.RegMR(make([]byte, 64), all|verbs.AccessRelaxedOrdering)
	check(t, err)
	closing(t, mr)
}
