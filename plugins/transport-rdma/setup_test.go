package rdma

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/config"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/memory"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/advice"
	"github.com/mooncake-go/mooncake/test/fakeverbs"
)

// refuses starts a node that must not start, twice, and returns why.
func refuses(t *testing.T, cfg *Config) error {
	n := newNode(*cfg)
	require.NoError(t, plugin.Validate(cfg))
	err := n.Start(within(t), &testHost{})
	require.Error(t, err)
	require.Equal(t, errs.ClassLocalDevice, errs.ClassOf(err), "%v", err)
	require.Negative(t, int(errs.CodeOf(err)))
	require.Equal(t, transport.Endpoint{}, newNode(*cfg).Endpoint())
	require.NoError(t, n.Stop(within(t)))
	return err
}

func says(t *testing.T, err error, a advice.Advice) {
	require.ErrorContains(t, err, a.Why)
	require.ErrorContains(t, err, a.Do)
}

func TestStartRefuses(t *testing.T) {
	cfg, _ := fakes(t, 1)
	c := cfg()
	c.Library = filepath.Join(t.TempDir(), "none.so")
	err := refuses(t, c)
	says(t, err, advice.NoLibrary())
	require.Equal(t, errs.NotSupported, errs.CodeOf(err))

	cfg, _ = fakes(t, 0)
	says(t, refuses(t, cfg()), advice.NoDevice())

	cfg, w := fakes(t, 2)
	w.FailCall("ibv_open_device", -1, 0, 2, syscall.EACCES)
	says(t, refuses(t, cfg()), advice.NotOpenable())

	w.Change(0, func(d *fakeverbs.Device) { d.State = 1 })
	w.Change(1, func(d *fakeverbs.Device) { clear(d.GIDs[:]) })
	err = refuses(t, cfg())
	says(t, err, advice.NoPort())
	require.ErrorContains(t, err, "port 1 of fake0 is down")
	require.ErrorContains(t, err, advice.NoGID("fake1", 1, -1).Why)

	c = cfg()
	c.GIDIndex = 7
	require.ErrorContains(t, refuses(t, c), advice.NoGID("fake1", 1, 7).Why)

	c = cfg()
	c.Devices = []string{"fake1", "mlx5_9"}
	err = refuses(t, c)
	require.ErrorContains(t, err, "mlx5_9")
	require.ErrorContains(t, err, "fake0, fake1")

	w.Change(0, func(d *fakeverbs.Device) { d.IWARP = 1 })
	c = cfg()
	c.Devices = []string{"fake0"}
	require.ErrorContains(t, refuses(t, c), "iWARP")
	for _, call := range []string{"ibv_alloc_pd", "ibv_create_cq", "ibv_create_comp_channel", "ibv_query_device"} {
		w.FailCall(call, 1, 0, 1, syscall.ENOMEM)
		c.Devices = []string{"fake1"}
		refuses(t, c)
	}
}

// TestPlace: a device that cannot be opened keeps its number, and the others are used.
func TestPlace(t *testing.T) {
	cfg, w := fakes(t, 3)
	w.FailCall("ibv_open_device", 1, 0, 2, syscall.EIO)
	c := newCouple(t, cfg, 4096)
	require.Equal(t, plugin.StateDegraded, c.client.reported().State)
	e, err := blob.DecodeEndpoint(c.server.Endpoint().Blob)
	require.NoError(t, err)
	require.Len(t, e.Devices, 3)
	require.False(t, e.Devices[1].Usable)
	k, err := blob.DecodeKey(c.key)
	require.NoError(t, err)
	require.Zero(t, k.RKey(0, 1))
	require.NotZero(t, k.RKey(0, 2))
	up := 0
	for _, r := range c.p.Rails() {
		op := c.write(uint64(r.ID), 0, 100)
		op.Rail = r.ID
		got := run(t, c.p, op)[op.ID]
		require.Equal(t, r.Up, got.Status == transport.OK, "%+v: %v", r, got.Err)
		if r.Up {
			up++
		} else {
			require.Equal(t, errs.ClassTransientPath, got.Class())
		}
	}
	require.Equal(t, 4, up)
	var names []string
	for _, d := range c.server.Segment().Devices {
		names = append(names, d.Name)
	}
	require.Equal(t, []string{"fake0", "fake2"}, names)
}

// TestRegisterFails: nothing is left on any device, and the error names the limit.
func TestRegisterFails(t *testing.T) {
	cfg, w := fakes(t, 2)
	n := launch(t, cfg())
	region := transport.Region{ID: 1, Mem: make([]byte, 1<<20), FD: -1, Access: transport.AccessRemote}
	reg := func() error {
		w.FailCall("ibv_reg_mr", 1, 0, 1, syscall.ENOMEM)
		w.FailCall("ibv_reg_mr_iova2", 1, 0, 1, syscall.ENOMEM)
		_, err := n.Register(within(t), region)
		require.Error(t, err)
		require.Equal(t, errs.ClassLocalDevice, errs.ClassOf(err))
		require.Zero(t, w.Live(os.Getpid())["mr"])
		return err
	}
	n.regions.PinLimit = func() uint64 { return 64 << 10 }
	says(t, reg(), advice.Memlock(1<<20, 64<<10))
	n.regions.PinLimit = func() uint64 { return ^uint64(0) }
	says(t, reg(), advice.MemoryKeys("fake1", 0, n.devices[1].Attr.MaxMR))
	_, key := share(t, n, 1, 1<<20)
	require.NotEmpty(t, key, "the ID is free again")

	w.FailCall("ibv_dereg_mr", 0, 0, 1, syscall.EBUSY)
	err := n.Deregister(within(t), 1)
	require.ErrorContains(t, err, "must not be reused yet")
	_, err = n.Register(within(t), region)
	require.Equal(t, errs.InvalidParams, errs.CodeOf(err), "its place is still taken")
	require.NoError(t, n.Deregister(within(t), 1), "the second attempt works")
	require.Zero(t, w.Live(os.Getpid())["mr"])
}

// TestManyChunks: a region that needs more registrations than a key holds says what to do.
func TestManyChunks(t *testing.T) {
	cfg, _ := fakes(t, 2)
	c := cfg()
	c.MaxMRSize = 4096
	n := launch(t, c)
	most := blob.MaxChunks(2) * 4096
	mem := make([]byte, most+1)
	_, err := n.Register(within(t), transport.Region{ID: 1, Mem: mem, FD: -1})
	require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	require.ErrorContains(t, err, strconv.Itoa(most)+" bytes")
	key, err := n.Register(within(t), transport.Region{ID: 1, Mem: mem[:most], FD: -1})
	require.NoError(t, err)
	require.LessOrEqual(t, len(key), blob.Max)
}

// TestGPUMemory: memory of a GPU goes through its dma-buf descriptor, or by address.
func TestGPUMemory(t *testing.T) {
	fd, err := unix.MemfdCreate("gpu", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	defer syscall.Close(fd)
	require.NoError(t, syscall.Ftruncate(fd, 1<<20))
	mem, err := syscall.Mmap(fd, 0, 1<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Munmap(mem)) }()
	for mode, want := range map[string]struct {
		fd     int
		dmabuf int
		fails  bool
	}{
		config.GPUAuto: {fd, 8, false}, config.GPUDMABuf: {fd, 8, false}, config.GPUPeermem: {fd, 0, false}, "auto without": {-1, 0, false}, "dmabuf without": {-1, 0, true},
	} {
		cfg, w := fakes(t, 2)
		c := cfg()
		c.MaxMRSize = 256 << 10
		c.GPUMemory, _, _ = strings.Cut(mode, " ")
		n := launch(t, c)
		_, err := n.Register(within(t), transport.Region{ID: 1, Mem: mem, FD: want.fd, Location: "cuda:0", Access: transport.AccessRemote})
		require.Equal(t, want.fails, err != nil, "%s: %v", mode, err)
		require.Equal(t, want.dmabuf, w.Calls("ibv_reg_dmabuf_mr"), mode)
		require.Equal(t, 8-want.dmabuf, w.Calls("ibv_reg_mr")+w.Calls("ibv_reg_mr_iova2")+map[bool]int{true: 8}[want.fails], mode)
	}
	cfg, w := fakes(t, 1)
	w.FailCall("ibv_reg_dmabuf_mr", -1, 0, 1, syscall.EOPNOTSUPP)
	n := launch(t, cfg())
	_, err = n.Register(within(t), transport.Region{ID: 1, Mem: mem, FD: fd, Location: "cuda:0"})
	require.ErrorContains(t, err, "peermem")
	require.Equal(t, errs.NotSupported, errs.CodeOf(err))
	require.False(t, memory.OnGPU("cpu:1") || memory.OnGPU("*") || memory.OnGPU("") || memory.OnGPU("segments:4096:cpu:0"))
}

// TestTouchPages leaves the content alone.
func TestTouchPages(t *testing.T) {
	cfg, _ := fakes(t, 1)
	c := cfg()
	c.ParallelRegistration = 1
	n := launch(t, c)
	mem := make([]byte, 1<<20)
	fill(mem, 1)
	want := append([]byte(nil), mem...)
	_, err := n.Register(context.Background(), transport.Region{ID: 1, Mem: mem[5:], FD: -1})
	require.NoError(t, err)
	require.Equal(t, want, mem)
}
