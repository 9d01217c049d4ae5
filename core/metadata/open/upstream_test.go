package open_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/http"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/core/metadata/open"
	"github.com/mooncake-go/mooncake/core/metadata/p2p"
	"github.com/mooncake-go/mooncake/core/metadata/storetest"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/etcdserver"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/redisserver"
)

// upstreamPython returns the interpreter of an environment with upstream's package
// (pip install mooncake-transfer-engine-non-cuda), which MOONCAKE_UPSTREAM_PYTHON
// names.
func upstreamPython(t *testing.T) string {
	python := os.Getenv("MOONCAKE_UPSTREAM_PYTHON")
	if python == "" {
		t.Skip("MOONCAKE_UPSTREAM_PYTHON names no interpreter with upstream's package")
	}
	return python
}

// node is a process of upstream's engine.
type node struct {
	name    string
	port    int    // of its handshake daemon
	address uint64 // of its buffer
	in      io.Writer
	out     *bufio.Reader
}

func startNode(t *testing.T, name, service, device string) (*node, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, upstreamPython(t), "testdata/node.py", name, service, device)
	cmd.Env = append(os.Environ(), "MC_TCP_BIND_ADDRESS=127.0.0.1")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close() // The node withdraws and ends.
		_ = cmd.Wait()
	})
	n := &node{name: name, in: in, out: bufio.NewReader(out)}
	if _, err := fmt.Fscanln(n.out, &n.port, &n.address); err != nil {
		return nil, errors.Join(errors.New("the node did not start"), err)
	}
	if service == open.P2PHandshake {
		n.name = metadata.JoinName("127.0.0.1", n.port)
	}
	return n, nil
}

// firstBuffer asks the node for the address of the first buffer of another.
func (n *node) firstBuffer(t *testing.T, name string) uint64 {
	_, err := fmt.Fprintln(n.in, name)
	require.NoError(t, err)
	line, err := n.out.ReadString('\n')
	require.NoError(t, err)
	a, err := strconv.ParseUint(line[:len(line)-1], 10, 64)
	require.NoError(t, err, line)
	return a
}

// seeEachOther publishes a descriptor of ours beside the one of the node, and looks from
// both sides.
func seeEachOther(t *testing.T, n *node, service string) {
	ctx := t.Context()
	dir, err := open.Open(ctx, service, open.Options{LocalName: "127.0.0.1:13377", BindHost: "127.0.0.1"})
	require.NoError(t, err)
	defer dir.Close(ctx)
	const address = 1<<63 + 4096 // No address that a float can hold.
	require.NoError(t, dir.Publish(ctx, &metadata.Descriptor{
		Name: dir.LocalName(), Protocol: "tcp", TCPProtoVersion: 2, TCPDataPort: 16999, Timestamp: metadata.Timestamp(time.Now()),
		Buffers:    []metadata.Buffer{{Name: dir.LocalName(), Addr: address + 1, Length: 4096}},
		Transports: []metadata.TransportEndpoint{{Name: "tcp", Blob: []byte("x"), Regions: []metadata.RegionKey{{Addr: 1, Length: 1, Location: "cpu:0"}}}},
	}))
	assert.Equal(t, uint64(address+1), n.firstBuffer(t, dir.LocalName()), "what the node sees of us")

	got, err := dir.Lookup(ctx, n.name)
	require.NoError(t, err)
	assert.Equal(t, n.name, got.Name)
	assert.Equal(t, "tcp", got.Protocol)
	assert.NotZero(t, got.TCPDataPort)
	require.NotEmpty(t, got.Buffers)
	assert.Equal(t, metadata.Buffer{Name: got.Buffers[0].Name, Addr: n.address, Length: 1 << 16}, got.Buffers[len(got.Buffers)-1], "what we see of the node")
	require.NoError(t, dir.Probe(ctx, n.name))
	require.NoError(t, dir.Notify(ctx, n.name, metadata.Notification{Name: dir.LocalName(), Message: "m"}))

	raw, err := fetch(ctx, n, service)
	require.NoError(t, err)
	d, err := metadata.DecodeDescriptor(raw)
	require.NoError(t, err)
	again, err := metadata.EncodeDescriptor(d)
	require.NoError(t, err)
	said := strings.TrimSpace(strings.Replace(string(raw), `"rdma_server_name":"",`, "", 1))
	assert.Equal(t, said, string(again), "we write what it writes")
	require.NoError(t, dir.Close(ctx))
}

// fetch returns the descriptor of a node as it stands.
func fetch(ctx context.Context, n *node, service string) ([]byte, error) {
	if service == open.P2PHandshake {
		return p2p.Dialer{}.Exchange(ctx, metadata.Address{Host: "127.0.0.1", Port: n.port}, p2p.TypeMetadata, []byte("{}"))
	}
	store, end, err := open.Store(service, open.Options{})
	if err != nil {
		return nil, err
	}
	defer end()
	return store.Get(ctx, metadata.Keys{}.Segment(n.name))
}

func TestUpstreamNodeWithoutAService(t *testing.T) {
	n, err := startNode(t, "127.0.0.1:13001", open.P2PHandshake, "")
	require.NoError(t, err)
	seeEachOther(t, n, open.P2PHandshake)
}

func TestUpstreamNodeWithOurService(t *testing.T) {
	upstreamPython(t)
	store := memory.New(memory.Limits{})
	srv := httptest.NewServer(http.NewHandler(store, nil))
	defer srv.Close()
	n, err := startNode(t, "127.0.0.1:13001", srv.URL+"/metadata", "")
	require.NoError(t, err)
	seeEachOther(t, n, srv.URL+"/metadata")
	for _, key := range []string{metadata.Keys{}.Segment(n.name), metadata.Keys{}.RPCMeta(n.name)} {
		v, err := store.Get(t.Context(), key)
		require.NoError(t, err)
		t.Logf("%s = %q", key, v)
	}
}

func TestUpstreamNodeAndService(t *testing.T) {
	python := upstreamPython(t)
	_, port, err := metadata.ParseName(storetest.FreeAddress(t))
	require.NoError(t, err)
	_, rpc, err := metadata.ParseName(storetest.FreeAddress(t))
	require.NoError(t, err)
	_, admin, err := metadata.ParseName(storetest.FreeAddress(t))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(python), "mooncake_master"), "--enable_http_metadata_server=true",
		"--http_metadata_server_host=127.0.0.1", fmt.Sprint("--http_metadata_server_port=", port), fmt.Sprint("--rpc_port=", rpc), fmt.Sprint("--metrics_port=", admin))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // It is a script with a child.
	cmd.WaitDelay = 5 * time.Second
	require.NoError(t, cmd.Start())
	defer func() { cancel(); _ = cmd.Wait() }()
	service := fmt.Sprint("http://127.0.0.1:", port, "/metadata")
	store, end, err := open.Store(service, open.Options{})
	require.NoError(t, err)
	defer end()
	require.Eventually(t, func() bool { _, err := store.Get(ctx, "k"); return errors.Is(err, metadata.ErrNotFound) }, 30*time.Second, 50*time.Millisecond)
	n, err := startNode(t, "127.0.0.1:13001", service, "")
	require.NoError(t, err)
	seeEachOther(t, n, service)
}

// TestUpstreamNodeWithDatabases skips the services that the package was built without.
func TestUpstreamNodeWithDatabases(t *testing.T) {
	upstreamPython(t)
	for name, start := range map[string]func(*testing.T) string{
		"etcd":  func(t *testing.T) string { return "etcd://" + etcdserver.New(t).Address },
		"redis": func(t *testing.T) string { return "redis://" + redisserver.New(t).Address },
	} {
		t.Run(name, func(t *testing.T) {
			service := start(t)
			n, err := startNode(t, "127.0.0.1:13001", service, "")
			if err != nil {
				t.Skipf("upstream's package does not speak to %s: %v", name, err)
			}
			seeEachOther(t, n, service)
		})
	}
}
