package shm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// roleEnv makes the test binary play one of the roles below; lineEnv is the offer to dial.
const (
	roleEnv = "MOONCAKE_SHM_TEST_ROLE"
	lineEnv = "MOONCAKE_SHM_TEST_OFFER"
)

const offered = 8 << 20

// offer is what a peer needs, on one line.
type offer struct {
	Endpoint transport.Endpoint
	Key      transport.Key
}

// play is the main program of a role. It ends when its input does.
func play(role string) int {
	err := map[string]func() error{"serve": serveRole, "write": writeRole, "stranger": strangerRole}[role]()
	if err != nil {
		fmt.Fprintln(os.Stderr, role, err)
		return 1
	}
	return 0
}

// serveRole opens memory to peers and says where.
func serveRole() error {
	n := newNode(*DefaultConfig())
	if err := n.Start(context.Background(), quiet{}); err != nil {
		return err
	}
	fd, err := unix.MemfdCreate("shm-test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return err
	}
	if err := unix.Ftruncate(fd, offered); err != nil {
		return err
	}
	mem, err := unix.Mmap(fd, 0, offered, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	key, err := n.Register(context.Background(), transport.Region{ID: 1, Mem: mem, FD: fd, Access: transport.AccessRemote})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(offer{n.Endpoint(), key}); err != nil {
		return err
	}
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	return n.Stop(context.Background())
}

// writeRole writes the offered memory without end, and says so once it does.
func writeRole() error {
	var o offer
	if err := json.Unmarshal([]byte(os.Getenv(lineEnv)), &o); err != nil {
		return err
	}
	n := newNode(*DefaultConfig())
	if err := n.Start(context.Background(), quiet{}); err != nil {
		return err
	}
	p, err := n.Dial(context.Background(), o.Endpoint)
	if err != nil {
		return err
	}
	id, err := p.Import(context.Background(), o.Key)
	if err != nil {
		return err
	}
	buf, dst := make([]byte, offered), make([]transport.Completion, 8)
	for i := uint64(0); ; i++ {
		if _, err := p.Submit([]transport.Op{{ID: i, Kind: transport.Write, Local: buf, Remote: id}}); err != nil {
			return err
		}
		if _, err := p.Reap(context.Background(), dst); err != nil {
			return err
		}
		switch {
		case i == 0 && dst[0].Status != transport.OK:
			return dst[0].Err
		case dst[0].Status != transport.OK:
			return nil // The end that the test waits for.
		case i == 0:
			fmt.Println("writing")
		}
	}
}

// child is a process that plays a role, killed with the test at the latest.
type child struct {
	*exec.Cmd
	line string // the first that it printed
}

func start(t *testing.T, role string, change func(*exec.Cmd)) *child {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	change(cmd)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _, _, _ = in.Close(), cmd.Process.Kill(), cmd.Wait() })
	c := &child{Cmd: cmd}
	c.line, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return c
}

// sleep returns once no thread of the process runs.
func (c *child) sleep(t *testing.T) {
	require.NoError(t, c.Process.Signal(syscall.SIGSTOP))
	var s syscall.WaitStatus
	_, err := syscall.Wait4(c.Process.Pid, &s, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, s.Stopped())
}

func startWith(t *testing.T, role string, o offer, change func(*exec.Cmd)) *child {
	line, err := json.Marshal(o)
	require.NoError(t, err)
	return start(t, role, func(c *exec.Cmd) {
		c.Env = append(c.Env, lineEnv+"="+string(line))
		change(c)
	})
}

func as(*exec.Cmd) {}

// TestOwnerIsKilled: its memory stays readable to copies in flight, later operations fail
// with class transient-peer, and nothing of it stays mapped.
func TestOwnerIsKilled(t *testing.T) {
	owner := start(t, "serve", as)
	var o offer
	require.NoError(t, json.Unmarshal([]byte(owner.line), &o))
	_, before := resources(t)
	client := fresh(t)
	p, id := dialTo(t, client, o.Endpoint, o.Key)
	buf := make([]byte, offered)
	read := transport.Op{Kind: transport.Read, Local: buf, Remote: id}
	require.Equal(t, transport.OK, one(t, p, read).Status)
	_, mapped := resources(t)
	require.Equal(t, before+1, mapped)

	const depth, part = 16, offered / 16
	free := make(chan uint64, depth)
	for i := range uint64(depth) {
		free <- i
	}
	failed, alive := 0, true
	dst := make([]transport.Completion, depth)
	for open := 0; failed == 0 || open > 0; {
		for failed == 0 && len(free) > 0 {
			i := <-free
			n, err := p.Submit([]transport.Op{{ID: i, Kind: transport.Read, Local: buf[i*part:][:part], Remote: id, Offset: i * part}})
			require.NoError(t, err)
			require.Equal(t, 1, n)
			open++
		}
		if alive {
			require.NoError(t, owner.Process.Kill())
			alive = false
		}
		n, err := p.Reap(t.Context(), dst)
		require.NoError(t, err)
		open -= n
		for _, c := range dst[:n] {
			if free <- c.ID; c.Status == transport.OK {
				continue
			}
			failed++
			require.Equal(t, transport.Failed, c.Status, "this process copies, and no other")
			require.Equal(t, errs.ClassTransientPeer, c.Class(), "%v", c.Err)
		}
	}
	require.Equal(t, errs.ClassTransientPeer, one(t, p, read).Class())
	p.connsDone.Wait()
	_, after := resources(t)
	require.Equal(t, before, after)
	_ = owner.Wait() // Its sockets close one after the other.
	_, err := client.Dial(t.Context(), o.Endpoint)
	require.Equal(t, errs.ClassTransientPath, errs.ClassOf(err), "no process listens: other transports may know more")
}

// served is memory in this process that another one writes.
func served(t *testing.T, change ...func(*Config)) (*node, []byte, *child) {
	n := fresh(t, change...)
	mem, fd := sealed(t, offered)
	key, err := n.Register(t.Context(), transport.Region{ID: 1, Mem: mem, FD: fd, Access: transport.AccessRemote})
	require.NoError(t, err)
	return n, mem, startWith(t, "write", offer{n.Endpoint(), key}, as)
}

// TestPeerIsKilled: a dead peer touches nothing, so the memory comes back.
func TestPeerIsKilled(t *testing.T) {
	n, mem, peer := served(t)
	require.NoError(t, peer.Process.Kill())
	require.NoError(t, n.Deregister(t.Context(), 1))
	other := bytes.Repeat([]byte{0xee}, len(mem))
	copy(mem, other)
	require.True(t, bytes.Equal(other, mem))
	require.Zero(t, n.Stats().Grants)
}

// TestPeerIsAsleep: a peer that lives may be in the middle of a copy, so its memory is not
// given back. Once it runs on, or died, it is.
func TestPeerIsAsleep(t *testing.T) {
	for name, end := range map[string]syscall.Signal{"it wakes up": syscall.SIGCONT, "it is killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			n, _, peer := served(t)
			peer.sleep(t)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			err := n.Deregister(ctx, 1)
			require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(err))
			require.ErrorContains(t, err, "must not be reused yet")
			require.NoError(t, peer.Process.Signal(end))
			require.NoError(t, n.Deregister(t.Context(), 1), "again, with more time")
		})
	}
}

// TestStopWithAPeerAsleep: Stop ends all the same, and says what it could not get back.
func TestStopWithAPeerAsleep(t *testing.T) {
	cfg := DefaultConfig()
	n := newNode(*cfg)
	require.NoError(t, n.Start(t.Context(), quiet{}))
	mem, fd := sealed(t, offered)
	key, err := n.Register(t.Context(), transport.Region{ID: 1, Mem: mem, FD: fd, Access: transport.AccessRemote})
	require.NoError(t, err)
	peer := startWith(t, "write", offer{n.Endpoint(), key}, as)
	peer.sleep(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, n.Stop(ctx), errStillMapped)
	require.Zero(t, n.Stats().ConnectionsIn)
}
