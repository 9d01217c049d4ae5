package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// service is a store node with its REST service.
type service struct {
	proc *cluster.Proc
	addr string // of the service
	node *pool  // asks its port for health and metrics
}

// linked makes a name of the program.
func linked(t *testing.T, name string) {
	t.Helper()
	if err := os.Symlink("mooncake", filepath.Join(bin, name)); !errors.Is(err, fs.ErrExist) {
		require.NoError(t, err)
	}
}

// startService starts a node as upstream's launch lines do, by a file and -D.
func startService(t *testing.T, p *pool, program string, args ...string) *service {
	t.Helper()
	ports, err := cluster.FreePorts(2)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "store.json")
	require.NoError(t, os.WriteFile(file, []byte(fmt.Sprintf(`{"local_hostname":"127.0.0.1","metadata_server":%q,"master_server_address":%q,
		"global_segment_size":"1gb","local_buffer_size":"16MB","protocol":"tcp","device_name":"","enable_client_http_server":true,"client_http_port":%d}`,
		p.meta, p.rpc, ports[1])), 0o600))
	linked(t, program)
	if program == "mooncake" {
		args = append([]string{"store"}, args...)
	}
	args = append(args, "--port", fmt.Sprint(ports[0]), "--config", file, "--max-wait-time", "60", "--rest_files", "/dev/shm/mooncake-e2e-", "-D", "global_segment_size=32mb", "--define", "unheard_of=1")
	return &service{proc: start(t, "service", program, args...), addr: fmt.Sprintf("127.0.0.1:%d", ports[0]), node: &pool{admin: fmt.Sprintf("127.0.0.1:%d", ports[1])}}
}

// ready waits until the service listens, as orchestrators do.
func (s *service) ready(t *testing.T) *service {
	t.Helper()
	require.NoError(t, cluster.Poll(s.proc, 60*time.Second, func() error {
		conn, err := net.Dial("tcp", s.addr)
		if err == nil {
			conn.Close()
		}
		return err
	}))
	return s
}

func (s *service) do(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.addr+path, strings.NewReader(body))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

func (s *service) must(t *testing.T, method, path, body string) string {
	t.Helper()
	code, text := s.do(t, method, path, body)
	require.Equal(t, 200, code, "%s %s: %s", method, path, text)
	return text
}

func (s *service) mustPutGet(t *testing.T, key string) {
	t.Helper()
	value := strings.Repeat(key+"ä\n", 5000)
	body, err := json.Marshal(map[string]string{"key": key, "value": value})
	require.NoError(t, err)
	require.JSONEq(t, `{"status":"success"}`, s.must(t, "PUT", "/api/put", string(body)))
	require.Equal(t, value, s.must(t, "GET", "/api/get/"+key, ""))
}

func (s *service) health(t *testing.T, want string) {
	t.Helper()
	require.NoError(t, cluster.Poll(s.proc, 30*time.Second, func() error {
		resp, err := http.Get("http://" + s.node.admin + "/health") //nolint:noctx // bounded by Poll
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err == nil && !strings.Contains(string(text), want) {
			err = fmt.Errorf("%s: %s", resp.Status, text)
		}
		return err
	}))
}

// shm makes a file in /dev/shm and removes it with the test.
func shm(t *testing.T, size int64) string {
	t.Helper()
	f, err := os.CreateTemp("/dev/shm", "mooncake-e2e-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.Remove(f.Name()) })
	require.NoError(t, f.Truncate(size))
	require.NoError(t, f.Close())
	return f.Name()
}

// TestStoreService starts, uses and stops the service under each of its names.
func TestStoreService(t *testing.T) {
	for _, program := range []string{"mooncake", "mooncake_store_service", "mc_store_rest_server"} {
		t.Run(program, func(t *testing.T) {
			p := startPool(t, 0)
			s := startService(t, p, program).ready(t)
			says(t, s.proc, "unheard_of") // What -D does not know is said.
			p.waitMounted(t, 1)
			s.mustPutGet(t, "by/the/service")
			assert.Equal(t, 0, p.client(t, "", "get", "by/the/service").Code, "the pool has it")
			p.mustPutGet(t, "by-a-client")
			s.must(t, "GET", "/api/get/by-a-client", "")
			assert.JSONEq(t, `{"exists":false}`, s.must(t, "GET", "/api/exist/nothing", ""))

			s.health(t, `{"status":"healthy","code":0}`)
			metrics, err := s.node.get(t, "/metrics")
			require.NoError(t, err)
			for _, line := range []string{"mooncake_node_mounted", "mooncake_node_segment_bytes", "mooncake_transfer_write_bytes", "mooncake_client_rpc_count", "go_goroutines"} {
				assert.Contains(t, metrics, "\n"+line)
			}
			summary, err := s.node.get(t, "/metrics/summary")
			require.NoError(t, err)
			assert.Contains(t, summary, "segment_bytes=33554432, read_bytes=")

			require.NoError(t, s.proc.Signal(syscall.SIGTERM))
			code, err := s.proc.Wait(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 0, code)
			p.waitMounted(t, 0)
		})
	}
}

// TestStoreServiceOutlivesItsMaster kills the master. Until the next one starts, health reports it
// and calls fail within their time. Then everything is mounted again, also memory that was mounted
// late.
func TestStoreServiceOutlivesItsMaster(t *testing.T) {
	p := startPool(t, 0)
	s := startService(t, p, "mooncake").ready(t)
	s.must(t, "POST", "/api/mount", `{"size":8388608}`)
	name := filepath.Base(shm(t, 8<<20))
	s.must(t, "POST", "/api/mount_shm", `{"name":"`+name+`","size":8388608}`)
	s.mustPutGet(t, "before")
	p.master.Kill()
	s.health(t, `{"status":"master_unreachable","code":2}`)
	for _, r := range [][2]string{{"GET", "/api/get/before"}, {"GET", "/api/exist/before"}, {"DELETE", "/api/remove/before"}, {"DELETE", "/api/remove_all"}} {
		code, text := s.do(t, r[0], r[1], "")
		assert.Equal(t, 500, code, text)
		assert.Contains(t, text, `"error_code":-90`)
	}
	p.startMaster(t)
	s.health(t, `{"status":"healthy","code":0}`)
	p.waitMounted(t, 3)
	s.mustPutGet(t, "after")
}

// TestReconfigureUnderLoad changes the memory repeatedly. A read returns the written value, or the
// object is gone.
func TestReconfigureUnderLoad(t *testing.T) {
	p := startPool(t, 0)
	s := startService(t, p, "mooncake").ready(t)
	files := []string{shm(t, 32<<20), shm(t, 32<<20)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var good, gone, wrong, failed atomic.Int64
	var load sync.WaitGroup
	for worker := range 4 {
		load.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key := fmt.Sprintf("w%d-%d", worker, i)
				value := strings.Repeat(key+".", 20000)
				body, _ := json.Marshal(map[string]string{"key": key, "value": value}) // a map of texts
				if code, text := s.do(t, "PUT", "/api/put", string(body)); code != 200 {
					failed.Add(1)
					t.Log(text)
					continue
				}
				switch code, got := s.do(t, "GET", "/api/get/"+key, ""); {
				case code == 200 && got == value:
					good.Add(1)
				case code == 200:
					wrong.Add(1)
				default:
					gone.Add(1)
				}
			}
		})
	}
	for i := range 12 {
		at := good.Load()
		s.must(t, "POST", "/api/reconfigure", fmt.Sprintf(`{"mode":"decode","path":%q,"size":%d}`, files[i%2], 32<<20))
		require.NoError(t, cluster.Poll(s.proc, 30*time.Second, func() error {
			if good.Load() < at+5 {
				return fmt.Errorf("no progress: good %d, gone %d, failed %d", good.Load(), gone.Load(), failed.Load())
			}
			return nil
		}))
	}
	s.must(t, "POST", "/api/reconfigure", `{"mode":"prefill"}`)
	cancel()
	load.Wait()
	t.Logf("read %d objects, %d were gone, %d puts failed", good.Load(), gone.Load(), failed.Load())
	assert.Zero(t, wrong.Load())
	assert.Greater(t, good.Load(), gone.Load()+failed.Load())
	s.mustPutGet(t, "afterwards")
}

// TestKilledStoreServiceComesBack restarts a killed service. The range of its file is free again,
// and the master drops the segments of the killed process.
func TestKilledStoreServiceComesBack(t *testing.T) {
	p := startPool(t, 0, killable...)
	file := shm(t, 8<<20)
	mount := fmt.Sprintf(`{"mode":"decode","path":%q,"size":%d}`, file, 8<<20)
	first := startService(t, p, "mooncake").ready(t)
	first.must(t, "POST", "/api/reconfigure", mount)
	second := startService(t, p, "mooncake").ready(t)
	code, text := second.do(t, "POST", "/api/reconfigure", mount)
	require.Equal(t, 500, code)
	require.Contains(t, text, "mounted already")
	first.proc.Kill()
	second.must(t, "POST", "/api/reconfigure", mount)
	p.waitMounted(t, 2)
	second.mustPutGet(t, "after")
}

// TestStoreServiceWaits checks that the service does not listen before its memory is mounted. If
// the mount takes too long, the service ends with exit code 1 and the reason; with a wrong file it
// ends at once.
func TestStoreServiceWaits(t *testing.T) {
	ports, err := cluster.FreePorts(2)
	require.NoError(t, err)
	port := fmt.Sprint(ports[0])
	env := []string{fmt.Sprintf("MOONCAKE_MASTER=127.0.0.1:%d", ports[1]), "MOONCAKE_GLOBAL_SEGMENT_SIZE=32mb", "MOONCAKE_LOCAL_HOSTNAME=127.0.0.1"}
	r := program(t, "mooncake", env, "", "store", "--port", port, "--max-wait-time", "5")
	assert.Equal(t, 1, r.Code)
	assert.Contains(t, r.Stderr, "connection refused")
	assert.NotContains(t, r.Stderr, "store service is serving")

	taken, err := net.Listen("tcp", "0.0.0.0:"+port)
	require.NoError(t, err)
	r = program(t, "mooncake", env, "", "store", "--port", port)
	taken.Close()
	assert.Equal(t, 1, r.Code)
	assert.Contains(t, r.Stderr, "--port", "the port is looked at before the wait")

	const name = "mc_store_rest_server"
	linked(t, name)
	r = program(t, name, nil, "", "--port", port)
	assert.Equal(t, 1, r.Code)
	assert.Contains(t, r.Stderr, "MOONCAKE_MASTER")

	p := startPool(t, 0)
	p.master.Kill()
	s := startService(t, p, "mooncake")
	_, err = net.Dial("tcp", s.addr)
	require.Error(t, err)
	p.startMaster(t)
	s.ready(t).mustPutGet(t, "in-time")
}

// TestStoreServiceWithoutMemory: a segment size of 0 leaves a client with a REST port.
func TestStoreServiceWithoutMemory(t *testing.T) {
	p := startPool(t, 1)
	ports, err := cluster.FreePorts(1)
	require.NoError(t, err)
	s := &service{addr: fmt.Sprintf("127.0.0.1:%d", ports[0])}
	s.proc = start(t, "service", "mooncake", "store", "--port", fmt.Sprint(ports[0]), "--global_segment_size", "0",
		"--master_server_address", p.rpc, "--metadata_server", p.meta, "--local_hostname", "127.0.0.1")
	s.ready(t).mustPutGet(t, "elsewhere")
	p.waitMounted(t, 1)
}
