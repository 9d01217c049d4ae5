package rdma

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// peerEnv asks the test binary to be a peer of TestKilledPeer: "library port last-port".
const peerEnv = "MOONCAKE_TEST_RDMA_PEER"

// TestPeerProcess is the peer: it shares memory, says where, and waits to be killed.
func TestPeerProcess(t *testing.T) {
	lib, ports, ok := strings.Cut(os.Getenv(peerEnv), " ")
	if !ok {
		t.Skip("only as a child of TestKilledPeer")
	}
	c := DefaultConfig()
	c.Host, c.Library = "127.0.0.1", lib
	_, err := fmt.Sscan(ports, &c.Port, &c.PortMax)
	require.NoError(t, err)
	n := launch(t, c)
	_, key := share(t, n, 1, 1<<20)
	ep := n.Endpoint()
	fmt.Printf("PEER %d %s %s\n", ep.Incarnation, base64.StdEncoding.EncodeToString(ep.Blob), base64.StdEncoding.EncodeToString(key))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// child starts a peer in a process of its own and returns what it publishes.
func child(t *testing.T, lib string, port, last int) (transport.Endpoint, transport.Key, *exec.Cmd) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestPeerProcess$", "-test.v")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d", peerEnv, lib, port, last))
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	var ep transport.Endpoint
	for lines := bufio.NewScanner(out); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) != 4 || f[0] != "PEER" {
			continue
		}
		ep.Incarnation, err = strconv.ParseUint(f[1], 10, 64)
		require.NoError(t, err)
		ep.Blob, err = base64.StdEncoding.DecodeString(f[2])
		require.NoError(t, err)
		key, err := base64.StdEncoding.DecodeString(f[3])
		require.NoError(t, err)
		return ep, key, cmd
	}
	t.Fatal("the peer said nothing")
	return ep, nil, nil
}

// TestKilledPeer: a peer that is killed in the middle fails its own requests and those of
// no other peer; one that comes back at the same address is a new one.
func TestKilledPeer(t *testing.T) {
	cfg, w := library(t, 2)
	lib := ""
	if w != nil {
		lib = w.Path()
	}
	// Below those that the kernel gives to callers that ask for any port, so that the port is still
	// free when it is needed again.
	first := 20_000 + rand.IntN(10_000)
	ep, key, cmd := child(t, lib, first, first+100)
	client, other := launch(t, cfg()), launch(t, cfg())
	_, otherKey := share(t, other, 1, 1<<20)
	buf := own(t, client, 1, 1<<20)
	p, ids := reach(t, client, ep, key)
	q, otherIDs := reach(t, client, other.Endpoint(), otherKey)
	write := func(id uint64, to transport.RemoteID, at int) transport.Op {
		return transport.Op{ID: id, Kind: transport.Write, Local: buf[at:][:16<<10], Remote: to, Offset: uint64(at)}
	}
	fine(t, p, write(1, ids[0], 0))

	killed := make(chan struct{})
	stop := make(chan error, 1)
	go func() { // The other peer is written all the time.
		stop <- func() error {
			dst := make([]transport.Completion, 8)
			for id := uint64(0); ; id++ {
				if _, err := q.Submit([]transport.Op{write(id, otherIDs[0], 512<<10)}); err != nil {
					return err
				}
				if _, err := q.Reap(context.Background(), dst[:1]); err != nil {
					return err
				}
				if dst[0].Status != transport.OK {
					return dst[0].Err
				}
				select {
				case <-killed:
					return nil
				default:
				}
			}
		}()
	}()
	var ops []transport.Op
	for i := range 32 {
		ops = append(ops, write(uint64(i), ids[0], i*16<<10))
	}
	failed := 0
	for round := 0; failed == 0; round++ {
		if round == 3 {
			require.NoError(t, cmd.Process.Kill())
		}
		got := run(t, p, ops...)
		require.Len(t, got, len(ops))
		for _, c := range got {
			if c.Status != transport.OK {
				failed++
				require.Contains(t, []errs.Class{errs.ClassTransientPeer, errs.ClassTransientPath}, c.Class(), "%v", c.Err)
			}
		}
	}
	close(killed)
	require.NoError(t, <-stop, "the other peer has nothing to do with it")

	e, err := blob.DecodeEndpoint(ep.Blob)
	require.NoError(t, err)
	_, port, _ := strings.Cut(e.Addrs[0], ":")
	at, err := strconv.Atoi(port)
	require.NoError(t, err)
	_ = cmd.Wait() // The kernel has closed its listener.
	fresh, freshKey, _ := child(t, lib, at, at)
	require.NotEqual(t, ep.Incarnation, fresh.Incarnation)
	p2, ids2 := reach(t, client, fresh, freshKey)
	fill(buf, 7)
	fine(t, p2, write(1, ids2[0], 0))
	back := own(t, client, 2, 16<<10)
	fine(t, p2, transport.Op{ID: 2, Kind: transport.Read, Local: back, Remote: ids2[0]})
	require.True(t, bytes.Equal(buf[:16<<10], back))
	eventually(t, "the old path finds out", func() bool { return run(t, p, write(1, ids[0], 0))[1].Class() == errs.ClassTransientPeer })
}
