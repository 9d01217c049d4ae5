package memory

import (
	"bytes"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

func twoNodes() fstest.MapFS {
	return fstest.MapFS{
		"sys/devices/system/node/online":                                          file("0-1\n"),
		"sys/devices/system/node/node0/cpulist":                                   file("0-31,64-95\n"),
		"sys/devices/system/node/node0/meminfo":                                   file("Node 0 MemTotal:       1048576 kB\nNode 0 MemFree:         524288 kB\n"),
		"sys/devices/system/node/node1/cpulist":                                   file("32-63\n"),
		"sys/devices/system/node/node1/meminfo":                                   file("Node 1 MemTotal:       2097152 kB\nNode 1 MemFree: 1 kB\n"),
		"sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages": file("7\n"),
		pool2M + "nr_hugepages":                                                   file("7"), pool2M + "free_hugepages": file("7"),
	}
}

func TestReadNodes(t *testing.T) {
	got, err := ReadNodes(twoNodes())
	require.NoError(t, err)
	require.Equal(t, []Node{
		{ID: 0, CPUs: "0-31,64-95", Total: 1 << 30, Free: 512 << 20},
		{ID: 1, CPUs: "32-63", Total: 2 << 30, Free: 1 << 10, Huge2M: 7},
	}, got)
	got, err = ReadNodes(fstest.MapFS{})
	require.NoError(t, err)
	require.Empty(t, got, "a kernel without NUMA")
	_, err = ReadNodes(fstest.MapFS{"sys/devices/system/node/online": file("0-9999\n")})
	require.ErrorContains(t, err, "0-9999")
}

func TestParseList(t *testing.T) {
	for in, want := range map[string][]int{"": nil, "\n": nil, "0": {0}, "0-2,8": {0, 1, 2, 8}, "3,1,1-2": {1, 2, 3}, "1023": {1023}} {
		got, err := parseList(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{"x", "-", "2-1", "0-1024", "0,,x", "-1", "0-99999999999999999999"} {
		_, err := parseList(in)
		require.Error(t, err, in)
	}
}

func TestPlacementChecks(t *testing.T) {
	root := twoNodes()
	cases := []struct {
		p    Placement
		page HugePages
		size uint64
		want string
	}{
		{OnNode(-1, true), HugeNone, 1 << 40, ""},
		{OnNode(1, true), HugeNone, 2 << 30, ""},
		{OnNode(0, false), HugeNone, 2 << 30, ""},
		{OnNode(1, true), Huge2M, 14 << 20, ""},
		{OnNode(0, true), HugeNone, 2 << 30, "2 GiB were asked for on NUMA node 0, which has 1 GiB"},
		{OnNode(2, false), HugeNone, 1, "NUMA node 2 was asked for, this machine has node 0, 1 (set store.numa_node to one of them, or to -1 for any)"},
		{OnNode(1, true), Huge2M, 16 << 20, "8 huge pages of 2MB are needed on NUMA node 1, 7 are free there (run as root: echo 8 > /sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"},
		{Placement{Policy: Interleave}, HugeNone, 1, "0 NUMA nodes"},
		{Placement{Policy: Bind, Nodes: []int{0, 1}}, HugeNone, 1, "2 NUMA nodes"},
		{Placement{Policy: Interleave, Nodes: []int{0, 1}}, HugeNone, 1, ""},
	}
	for _, c := range cases {
		err := c.p.Check(root, c.page, c.size)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.want)
		require.True(t, errs.Is(err, errs.InvalidParams))
	}
	require.ErrorContains(t, OnNode(0, false).Check(fstest.MapFS{}, HugeNone, 1), "no NUMA nodes")
}

// numaKernel records what is bound, or refuses.
type numaKernel struct {
	system
	err   error
	mode  uintptr
	nodes []int
	steps atomic.Int64
	fail  bool
}

func (k *numaKernel) mbind(_ []byte, mode uintptr, nodes []int) error {
	k.mode, k.nodes = mode, nodes
	return k.err
}

func (k *numaKernel) populate(mem []byte) error {
	k.steps.Add(1)
	if k.fail {
		return unix.ENOMEM
	}
	return k.system.populate(mem)
}

func TestPlacement(t *testing.T) {
	for _, c := range []struct {
		p        Placement
		mode     uintptr
		location string
	}{
		{OnNode(1, false), mpolPreferred, "cpu:1"},
		{OnNode(0, true), mpolBind, "cpu:0"},
		{Placement{Policy: Interleave, Nodes: []int{0, 1}}, mpolInterleave, "*"},
		{Placement{}, 0, "*"},
	} {
		k := &numaKernel{}
		b, err := allocate(1<<20, Options{Placement: c.p, Root: twoNodes()}, k)
		require.NoError(t, err)
		require.Equal(t, c.mode, k.mode)
		require.Equal(t, c.p.Nodes, k.nodes)
		require.Equal(t, c.location, b.Location())
		require.NoError(t, b.Close())
	}
}

// A wish that is refused is a warning, a requirement that is refused an error.
func TestPlacementRefused(t *testing.T) {
	var out bytes.Buffer
	o := Options{Placement: OnNode(1, false), Root: twoNodes(), Log: slog.New(slog.NewTextHandler(&out, nil))}
	b, err := allocate(1<<20, o, &numaKernel{err: unix.EPERM})
	require.NoError(t, err)
	require.Equal(t, "*", b.Location(), "it lies wherever the kernel put it")
	require.Contains(t, out.String(), "does not permit mbind")
	require.NoError(t, b.Close())

	o.Placement = OnNode(1, true)
	_, err = allocate(1<<20, o, &numaKernel{err: unix.EPERM})
	require.ErrorIs(t, err, unix.EPERM)
	require.ErrorContains(t, err, "CAP_SYS_NICE")
}

// TestPlacementIsReal binds to the first node of this machine, where the kernel permits it.
func TestPlacementIsReal(t *testing.T) {
	nodes, err := ReadNodes(nil)
	require.NoError(t, err)
	if len(nodes) == 0 {
		t.Skip("this kernel has no NUMA nodes")
	}
	b, err := Allocate(1<<20, Options{Placement: OnNode(nodes[0].ID, true), Prefault: true})
	if errs.Is(err, errs.Internal) {
		t.Skipf("mbind is not permitted here: %v", err)
	}
	require.NoError(t, err)
	require.Equal(t, OnNode(nodes[0].ID, true).location(), b.Location())
	b.Bytes()[1<<20-1] = 1
	require.NoError(t, b.Close())
}

func TestPopulateSharesTheWork(t *testing.T) {
	k := &numaKernel{}
	mem := make([]byte, 5<<20)
	require.NoError(t, populateAll(mem, 2<<20, func(part []byte) error {
		k.steps.Add(1)
		for i := range part {
			part[i]++
		}
		return nil
	}))
	require.Equal(t, int64(3), k.steps.Load())
	require.Equal(t, len(mem), bytes.Count(mem, []byte{1}), "every byte once")

	stop := errors.New("stop")
	calls := 0
	mem = mem[:4<<10]
	require.ErrorIs(t, populateAll(mem, len(mem), func([]byte) error { calls++; return stop }), stop)
	require.Equal(t, 1, calls)

	for _, c := range []struct {
		o    Options
		want bool
	}{
		{Options{}, false},
		{Options{Prefault: true}, true},
		{Options{HugePages: Huge2M}, false},
		{Options{HugePages: Huge2M, Placement: OnNode(0, false)}, false},
		{Options{HugePages: Huge2M, Placement: OnNode(0, true)}, true},
		{Options{Placement: OnNode(0, true)}, false},
	} {
		require.Equal(t, c.want, c.o.touches(), "%+v", c.o)
	}

	k = &numaKernel{fail: true}
	_, err := allocate(1<<20, Options{Prefault: true}, k)
	require.ErrorIs(t, err, unix.ENOMEM)
	require.Equal(t, int64(1), k.steps.Load())
}

func TestPieces(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		total, limit uint64
		want         []uint64
	}{
		{0, mib, nil},
		{10 * mib, 1 << 40, []uint64{10 * mib}},
		{16 * mib, 8 * mib, []uint64{8 * mib, 8 * mib}},
		{20 * mib, 8 * mib, []uint64{8 * mib, 8 * mib, 4 * mib}},
		{9*mib + 5, 1, []uint64{4 * mib, 4 * mib, mib + 5}},
		{24 * mib, 15 * mib, []uint64{12 * mib, 12 * mib}},
	} {
		require.Equal(t, c.want, Pieces(c.total, c.limit))
	}
}
