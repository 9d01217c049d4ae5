package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/ha/open"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/advice"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// hanging is a file system of which one file never answers, until it is let go.
type hanging struct {
	fs.FS
	name string
	let  chan struct{}
}

func (h hanging) Open(name string) (fs.File, error) {
	if name == h.name {
		<-h.let
	}
	return h.FS.Open(name)
}

func find(t *testing.T, r Report, name string) Result {
	t.Helper()
	for _, x := range r.Results {
		if x.Check == name {
			return x
		}
	}
	t.Fatalf("no check %q", name)
	return Result{}
}

// A read that hangs and a master that never answers cost the timeout, once, and the other
// checks are done.
func TestNothingHangs(t *testing.T) {
	root := tree(t, "vm")
	request := settings(t, config.RoleStore)
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		m := machine(hanging{root, "proc/self/mounts", let})
		m.Master = func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}
		request.Timeout = 0
		start := time.Now()
		report := Run(t.Context(), m, request)
		require.LessOrEqual(t, time.Since(start), DefaultTimeout*11/10, "by the fake clock")
		require.Equal(t, "no answer within 2s", find(t, report, "shared memory").Found)
		require.Equal(t, Warn, find(t, report, "shared memory").Status)
		require.Equal(t, "127.0.0.1:50051: no answer in time", find(t, report, "master").Found)
		require.Equal(t, OK, find(t, report, "kernel").Status)
		close(let)
	})
}

// A machine without anything to read: every check says so, none panics, none claims that
// all is well with what it could not see.
func TestAnEmptyMachine(t *testing.T) {
	report := Run(t.Context(), machine(fstest.MapFS{}), settings(t, config.RoleAll))
	for _, name := range []string{"kernel", "cpu", "memory", "memlock", "open files", "ports", "shared memory"} {
		require.Equal(t, Warn, find(t, report, name).Status, name)
	}
	require.Equal(t, OK, Report{}.Worst())
}

// The real machine, with the real clock. What it finds depends on the machine; that it
// finds something does not.
func TestThisMachine(t *testing.T) {
	m := ThisMachine(config.Security{}, func(context.Context, string) (string, error) { return "", errors.New("none") })
	report := Run(t.Context(), m, settings(t, config.RoleAll))
	require.True(t, strings.HasPrefix(find(t, report, "kernel").Found, "Linux "))
	require.Contains(t, find(t, report, "cpu").Found, "CPU")
	require.Contains(t, find(t, report, "memory").Found, "available")
	require.Contains(t, find(t, report, "checksum").Found, "GB/s")
}

func TestChecksumKernel(t *testing.T) {
	for _, x := range []struct {
		name   string
		err    error
		status Status
		found  string
	}{
		{"avx512", nil, OK, "CRC32C by the kernel avx512, 52.3 GB/s while it copies"},
		{"sse42", errors.New("no kernel x"), Warn, "CRC32C by the kernel sse42, 52.3 GB/s while it copies"},
		{"portable", nil, Warn, "CRC32C by the kernel portable, 52.3 GB/s while it copies"},
	} {
		m := machine(tree(t, "vm"))
		m.Checksum = func() (string, float64, error) { return x.name, 52.34e9, x.err }
		r := find(t, Run(t.Context(), m, settings(t, config.RoleStore)), "checksum")
		require.Equal(t, x.status, r.Status, x.name)
		require.Equal(t, x.found, r.Found)
		if x.err != nil {
			require.Equal(t, x.err.Error(), r.Why)
		}
	}
}

// A real socket is found with its process, this one.
func TestARealPort(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	require.NoError(t, err)
	m := machine(os.DirFS("/"))
	r := find(t, Run(t.Context(), m, settings(t, config.RoleMaster, "MASTER_METRICS_PORT="+port)), "ports")
	require.Equal(t, Fail, r.Status)
	name, err := os.ReadFile("/proc/self/comm")
	require.NoError(t, err)
	// Another process on this machine may have the other ports of a master.
	want := fmt.Sprintf("%s (master.metrics_port) is in use by %s (process %d)", port, bytes.TrimSpace(name), os.Getpid())
	require.Contains(t, strings.Join(r.Details, "\n"), want)
}

func TestPortsOfIPv6AndOfOtherRoles(t *testing.T) {
	root := tree(t, "vm")
	root["proc/net/tcp6"] = file("sl\n 0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 5 1\nbroken\n 1: x:ZZZZ y 0A 0 0 0 0 0 1\n")
	r := find(t, Run(t.Context(), machine(root), settings(t, config.RoleMetadata)), "ports")
	require.Equal(t, "1 of 1 port in use", r.Found)
	r = find(t, Run(t.Context(), machine(root), settings(t, config.RoleMetadata, "METADATA_PORT=0")), "ports")
	require.Equal(t, OK, r.Status, "any free port")
	require.Equal(t, OK, find(t, Run(t.Context(), machine(root), settings(t, config.RoleClient)), "ports").Status)
}

func TestMetadataAnswers(t *testing.T) {
	answer := func(code int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("key") == "" {
				code = http.StatusBadRequest
			}
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}))
		defer s.Close()
		if err := askMetadata(t.Context(), config.Security{}, s.URL+"/metadata"); err != nil {
			return err.Error()
		}
		return ""
	}
	require.Empty(t, answer(200, "{}"))
	require.Empty(t, answer(404, "metadata not found"))
	require.Contains(t, answer(404, "no such page"), "404 Not Found, which a metadata service does not")
	require.Contains(t, answer(502, ""), "502 Bad Gateway")
	require.Error(t, askMetadata(t.Context(), config.Security{}, "http://127.0.0.1:1/metadata"))
	require.Error(t, askMetadata(t.Context(), config.Security{}, "http://\x00"))

	m, request := machine(tree(t, "vm")), settings(t, config.RoleStore)
	request.Config.Store.MetadataServer = "etcd://user:hush@h:2379"
	require.Equal(t, "a service of the kind etcd is not looked at", find(t, Run(t.Context(), m, request), "metadata").Found)
}

// Each of these changes one thing about a machine that is in order.
func TestOneThingAtATime(t *testing.T) {
	day := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	set := func(c Clock) func(*Machine) {
		return func(m *Machine) { m.Clock = func() (Clock, error) { return c, nil } }
	}
	for _, c := range []struct {
		check, want string
		status      Status
		files       map[string]string
		sets        []string
		change      func(*Machine)
	}{
		{"clock", "1970-01-01", Fail, nil, nil, set(Clock{Now: time.Unix(0, 0)})},
		{"clock", "not synchronised", Warn, nil, nil, set(Clock{Now: day})},
		{"clock", "suspended for 1h0m0s", Warn, nil, nil, set(Clock{Now: day, Synchronised: true, Suspended: time.Hour})},
		{"clock", "source hpet", Warn, map[string]string{"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet"}, nil, nil},
		{"kernel", "Linux 4.9.0", Fail, map[string]string{"proc/sys/kernel/osrelease": "4.9.0"}, nil, nil},
		{"kernel", "Linux 5.10.0", Warn, map[string]string{"proc/sys/kernel/osrelease": "5.10.0"}, nil, nil},
		{"cpu", "4 CPUs, the control group allows 0.5", Warn, map[string]string{"sys/fs/cgroup/user.slice/cpu.max": "50000 100000"}, nil, nil},
		{"cpu", "4 CPUs, the control group allows 8", OK, map[string]string{"sys/fs/cgroup/user.slice/cpu.max": "800000 100000"}, nil, nil},
		{"memory", "16 GiB for segment", Fail, nil, []string{"STORE_GLOBAL_SEGMENT_SIZE=16GB"}, nil},
		{"memory", "14 GiB for segment", Warn, nil, []string{"STORE_GLOBAL_SEGMENT_SIZE=14GB"}, nil},
		{"memory", "allows 4.1 GiB", Warn, map[string]string{"sys/fs/cgroup/user.slice/memory.max": "4400000000"}, nil, nil},
		{"hugepages", "1GB: 2 of 2 free; store.use_hugepage is off", Warn, map[string]string{"sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "2",
			"sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages": "2"}, nil, nil},
		{"hugepages", "2MB: 0 of 0 free", Fail, nil, []string{"STORE_USE_HUGEPAGE=1"}, nil},
		{"hugepages", "1GB: 6 of 6 free", Warn, map[string]string{"sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "6",
			"sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages": "6"}, []string{"STORE_USE_HUGEPAGE=1", "STORE_HUGEPAGE_SIZE=1GB", "STORE_MMAP_ARENA_POOL_SIZE=2GB"}, nil},
		{"hugepages", "6 GiB needed", OK, map[string]string{"sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "6",
			"sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages": "6"}, []string{"STORE_USE_HUGEPAGE=1", "STORE_HUGEPAGE_SIZE=1GB", "STORE_MMAP_ARENA_POOL_SIZE=1GB"}, nil},
		{"numa", "1 node", Fail, nil, []string{"STORE_NUMA_NODE=3"}, nil},
		{"numa", "1 node", Fail, nil, []string{"STORE_NUMA_NODE=0", "STORE_NUMA_STRICT=1", "STORE_GLOBAL_SEGMENT_SIZE=16GB"}, nil},
		{"shared memory", "/dev/shm holds 512 MiB", Warn, map[string]string{"proc/self/mounts": "t /dev/shm tmpfs rw,size=512m 0 0"}, nil, nil},
		{"shared memory", "/dev/shm holds 1.6 GiB", OK, map[string]string{"proc/self/mounts": "t /dev/shm tmpfs rw,size=10% 0 0"}, nil, nil},
		{"shared memory", "/dev/shm is not mounted", Warn, map[string]string{"proc/self/mounts": "none"}, nil, nil},
		{"open files", "4096", Warn, map[string]string{"proc/self/limits": "Max open files  1024  4096  files"}, nil, nil},
		{"memlock", "64 KiB, and CAP_IPC_LOCK lifts it", OK, map[string]string{"proc/self/limits": "Max locked memory  65536 65536  bytes", "proc/self/status": "CapEff: 4000"},
			[]string{"STORE_PROTOCOL=rdma"}, nil},
		{"rdma", "0 devices", Fail, nil, []string{"STORE_PROTOCOL=rdma"}, nil},
		{"rdma", "1 device, 0 active", Fail, map[string]string{"sys/class/infiniband/a/ports/1/state": "4: ACTIVE", "sys/class/infiniband/a/ports/1/gids/0": "0000:0000"}, []string{"STORE_PROTOCOL=rdma"}, nil},
		{"rdma", "1 device, 1 active; libibverbs at /opt/ofed/lib; store.transports does not name rdma", OK, map[string]string{
			"sys/class/infiniband/a/ports/1/state": "1: DOWN", "sys/class/infiniband/a/ports/2/state": "4: ACTIVE", "sys/class/infiniband/a/ports/2/gids/3": "fe80::1",
			"sys/class/infiniband_verbs/uverbs0/ibdev": "a", "dev/infiniband/uverbs0": "", "etc/ld.so.cache": "x\x00libibverbs.so.1\x00/opt/ofed/lib/libibverbs.so.1\x00"}, nil, nil},
		{"rdma", "libibverbs is not installed", Fail, map[string]string{"sys/class/infiniband/a/ports/1/state": "4: ACTIVE", "sys/class/infiniband/a/ports/1/gids/0": "fe80::1",
			"sys/class/infiniband_verbs/uverbs0/ibdev": "a", "dev/infiniband/uverbs0": ""}, []string{"STORE_PROTOCOL=rdma"}, nil},
		{"plugins", "1 folder in order", OK, nil, []string{"PLUGINS_DIRS=/opt/mine"}, func(m *Machine) {
			m.Root.(fstest.MapFS)["opt/mine"] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
		}},
		{"plugins", "0 folders in order", Fail, map[string]string{"opt/file": ""}, []string{"PLUGINS_DIRS=/opt/file"}, nil},
		{"plugins", "0 folders in order", Warn, nil, []string{"PLUGINS_DIRS=/opt/gone"}, nil},
		{"master", "127.0.0.1:50051: reset", Fail, nil, nil, func(m *Machine) {
			m.Master = func(context.Context, string) (string, error) { return "", errors.New("reset") }
		}},
		{"master", "10.0.0.9:1 leads and serves", OK, nil, []string{"STORE_MASTER_SERVER_ADDRESS=etcd://e:1"}, leads("10.0.0.9:1", nil)},
		{"master", "a:1 leads and serves", OK, nil, []string{"STORE_MASTER_SERVER_ADDRESS=a:1,b:1"}, leads("a:1", nil)},
		{"master", "no master leads cluster blue, says etcd://e:1", Fail, nil, []string{"STORE_MASTER_SERVER_ADDRESS=etcd://e:1", "STORE_CLUSTER_ID=blue"},
			leads("", open.NoLeader("etcd://e:1", "blue"))},
		{"master", "who leads is not known, etcd://e:1 does not answer", Fail, nil, []string{"STORE_MASTER_SERVER_ADDRESS=etcd://e:1"},
			leads("", errs.New(errs.EtcdOperationError, "etcd", "refused"))},
		{"master", "none of a:1,b:1 serves", Fail, nil, []string{"STORE_MASTER_SERVER_ADDRESS=a:1,b:1"}, leads("", errs.New(errs.RPCFail, "", "refused"))},
	} {
		m := machine(tree(t, "vm"))
		for name, text := range c.files {
			m.Root.(fstest.MapFS)[name] = file(text)
		}
		if c.change != nil {
			c.change(&m)
		}
		r := find(t, Run(t.Context(), m, settings(t, config.RoleStore, c.sets...)), c.check)
		require.Equal(t, c.status, r.Status, "%s: %+v", c.check, r)
		require.Contains(t, r.Found, c.want, c.check)
	}
}

func leads(leader string, err error) func(*Machine) {
	return func(m *Machine) {
		m.Leader = func(context.Context, config.Store) (string, error) { return leader, err }
	}
}

// TestRDMASettings: what a device does not have, in the words of the transport's error.
func TestRDMASettings(t *testing.T) {
	look := func(files map[string]string, sets ...string) Result {
		m := machine(tree(t, "server"))
		for name, text := range files {
			m.Root.(fstest.MapFS)[name] = file(text)
		}
		return find(t, Run(t.Context(), m, settings(t, config.RoleStore, append(sets, "STORE_PROTOCOL=rdma")...)), "rdma")
	}
	require.NotContains(t, look(nil, "MC_GID_INDEX=0").Why, "GID 0")
	r := look(nil, "MC_GID_INDEX=7")
	a := advice.NoGID("mlx5_0", 1, 7)
	require.Equal(t, []any{Fail, a.Why, a.Do}, []any{r.Status, r.Why, r.Do})
	mtu := func(dev, mtu string) map[string]string {
		return map[string]string{"sys/class/infiniband/" + dev + "/ports/1/gid_attrs/ndevs/0": "eth-" + dev, "sys/class/net/eth-" + dev + "/mtu": mtu}
	}
	files := mtu("mlx5_0", "4200")
	maps.Copy(files, mtu("mlx5_1", "1500"))
	r = look(files)
	require.Equal(t, Warn, r.Status)
	require.Contains(t, r.Why, "4200")
	require.Contains(t, r.Why, "1500")
	require.Contains(t, strings.Join(r.Details, "\n"), "interface eth-mlx5_0 of MTU 4200")
}

// Whatever the files hold, the report is whole.
func FuzzFiles(f *testing.F) {
	f.Add([]byte("Max open files 1 2\n0::/a/b\n"), []byte("size=\n 0: 0:0 0 0A 0 0 0 0 0 1"))
	f.Add([]byte("t /dev/shm tmpfs size=99999999999999999999g\nCapEff: zz\nCpus_allowed_list: 3-1,-"), []byte("0-\n[\n9223372036854775807"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		root := fstest.MapFS{}
		for i, name := range []string{"proc/self/limits", "proc/self/status", "proc/self/mounts", "proc/self/cgroup", "proc/net/tcp", "proc/meminfo", "proc/sys/kernel/osrelease",
			"sys/devices/system/node/online", "sys/fs/cgroup/cpu.max", "sys/class/infiniband/x/ports/1/state", "sys/class/infiniband/x/ports/1/gids/0", "etc/ld.so.cache",
			"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "sys/kernel/mm/transparent_hugepage/enabled"} {
			root[name] = &fstest.MapFile{Data: [][]byte{a, b}[i%2]}
		}
		report := Run(t.Context(), machine(root), Request{Role: config.RoleAll, Timeout: time.Minute})
		var out bytes.Buffer
		if err := report.WriteText(&out); err != nil {
			t.Fatal(err)
		}
		for _, r := range report.Results {
			if r.Status == "" || r.Found == "" || r.Status != OK && r.Why == "" {
				t.Fatalf("%+v", r)
			}
		}
	})
}
