package uds

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// roleEnv makes the test program play the peer, with its socket in the folder of folderEnv.
const (
	roleEnv   = "UDS_TEST_ROLE"
	folderEnv = "UDS_TEST_FOLDER"
)

const offered = 8 << 20

// offer is what a peer needs in order to dial; the process prints it on one line.
type offer struct {
	Endpoint transport.Endpoint
	Key      transport.Key
}

// play is the main program of the peer. It ends at the end of its input.
func play(string) int {
	cfg := DefaultConfig()
	cfg.Folder = os.Getenv(folderEnv)
	n := newNode(*cfg)
	ctx := context.Background()
	err := n.Start(ctx, quiet{})
	if err == nil {
		var k transport.Key
		if k, err = n.Register(ctx, transport.Region{ID: 1, Mem: bytes.Repeat([]byte{7}, offered), FD: -1, Access: transport.AccessRemote}); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(offer{n.Endpoint(), k})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := n.Stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// peer starts a process that offers memory.
func peer(t *testing.T, dir string) (*exec.Cmd, offer) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleEnv+"=peer", folderEnv+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var o offer
	if err := json.Unmarshal(line, &o); err != nil {
		t.Fatal(err)
	}
	return cmd, o
}

// TestPeerIsKilled kills the peer (SIGKILL) in the middle of operations. Each operation completes
// exactly once. Later ones fail because the peer is dead. The next start removes the stale socket,
// and operations to the next process succeed.
func TestPeerIsKilled(t *testing.T) {
	dir := private(t)
	cmd, o := peer(t, dir)
	n := started(t)
	p, id := dialled(t, n, o.Endpoint, o.Key)
	buf := make([]byte, offered)
	op := func(i uint64) transport.Op {
		return transport.Op{ID: i, Kind: transport.OpKind(1 + i%2), Local: buf, Remote: id}
	}
	if c := one(t, p, op(1000)); c.Status != transport.OK || buf[offered-1] != 7 {
		t.Fatalf("%+v", c)
	}

	const many = 8
	for i := range uint64(many) {
		const size = offered / many // A range of its own.
		submit(t, p, transport.Op{ID: i, Kind: transport.OpKind(1 + i%2), Local: make([]byte, size), Remote: id, Offset: i * size})
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for i, c := range reap(t, p, many) {
		if c.Status == transport.OK {
			continue // It completed before the kill.
		}
		if c.Status == transport.Quarantined && i%2 == 0 {
			// Even IDs are Reads: nothing can touch their buffers.
			t.Errorf("a Read was quarantined: %+v", c)
		}
		if class := c.Class(); class != errs.ClassTransientPath && class != errs.ClassTransientPeer {
			t.Errorf("class %v: %v", class, c.Err)
		}
	}
	eventually(t, "operations report that the peer is dead", func() bool {
		c := one(t, p, op(2000))
		return c.Status == transport.Failed && c.Class() == errs.ClassTransientPeer
	})
	e, err := decodeEndpoint(o.Endpoint.Blob)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(e.Socket); err != nil {
		t.Fatalf("the socket should have been left behind: %v", err)
	}

	_, next := peer(t, dir)
	if _, err := os.Lstat(e.Socket); !os.IsNotExist(err) {
		t.Errorf("the next start did not sweep the folder: %v", err)
	}
	if _, err := p.Import(t.Context(), next.Key); errs.ClassOf(err) != errs.ClassTransientPeer {
		t.Errorf("a key of another incarnation: %v", err)
	}
	again, id := dialled(t, n, next.Endpoint, next.Key)
	if c := one(t, again, transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: id}); c.Status != transport.OK {
		t.Errorf("%+v", c)
	}
}
