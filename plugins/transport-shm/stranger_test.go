package shm

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// strangerRole reads the offered memory as whoever it runs as, tries to get the right to
// write it, and prints what came of it.
func strangerRole() error {
	var o offer
	if err := json.Unmarshal([]byte(os.Getenv(lineEnv)), &o); err != nil {
		return err
	}
	e, err := wire.DecodeEndpoint(o.Endpoint.Blob)
	if err != nil {
		return err
	}
	k, err := wire.DecodeKey(o.Key)
	if err != nil {
		return err
	}
	c, err := wire.Dial(context.Background(), e.Socket)
	if err != nil {
		return err
	}
	_ = c.Send(wire.Message{Type: wire.MsgHello, Number: e.Incarnation, Token: e.Secret}, -1)
	_ = c.Send(wire.Message{Type: wire.MsgAttach, Handle: 1, Number: k.Region, Token: k.Token}, -1)
	for {
		m, fd, err := c.Receive()
		if err != nil {
			m, fd, err = c.Receive() // A reset comes before what was sent.
		}
		switch {
		case err != nil:
			return err
		case m.Type == wire.MsgGoAway || m.Type == wire.MsgDenied:
			fmt.Println("refused:", m.Reason.Info().Label)
			return nil
		case m.Type == wire.MsgAttached:
			_, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			_, again := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDWR, 0)
			_, read := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
			fmt.Println("write:", err, "open again:", again, "read:", read)
			return nil
		}
	}
}

// becomeOther makes a process another user's. It skips the test where that cannot be: without
// root, where there is one user only, or where others may not run the test binary.
func becomeOther(t *testing.T) func(*exec.Cmd) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	as := func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	probe := exec.Command("/proc/self/exe", "-test.run=^$")
	as(probe)
	if err := probe.Start(); err != nil {
		t.Skipf("the test binary does not run as another user: %v", err)
	}
	_ = probe.Wait() // That it began is enough.
	return as
}

// TestOtherUsers: a process of another user gets nothing by default; with access any it gets
// regions that are all of their memory object, with no more rights than they have.
func TestOtherUsers(t *testing.T) {
	other := becomeOther(t)
	for _, c := range []struct {
		name, access string
		size, length int
		rights       transport.Access
		want         string
	}{
		{"by default", AccessUser, 8192, 8192, transport.AccessRemote, "refused: user"},
		{"any, read only", AccessAny, 8192, 8192, transport.AccessRemoteRead, "write: permission denied open again: permission denied read: <nil>"},
		{"any, the last page in part", AccessAny, 8192, 5000, transport.AccessRemote, "write: <nil>"},
		{"any, part of an object", AccessAny, 8192, 4096, transport.AccessRemote, "refused: part"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := fresh(t, func(cfg *Config) { cfg.Access = c.access })
			mem, fd := sealed(t, c.size)
			key, err := n.Register(t.Context(), transport.Region{ID: 1, Mem: mem[:c.length], FD: fd, Access: c.rights})
			require.NoError(t, err)
			got := startWith(t, "stranger", offer{n.Endpoint(), key}, other)
			require.True(t, strings.HasPrefix(got.line, c.want), got.line)
		})
	}
}
