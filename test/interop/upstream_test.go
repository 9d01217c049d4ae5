package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds each wait of a test; reaching it is a failure.
const patience = 60 * time.Second

// upstream is a node of upstream, a process of its own with one registered buffer.
type upstream struct {
	cmd  *exec.Cmd
	log  bytes.Buffer // complete after kill
	in   io.WriteCloser
	out  *bufio.Scanner
	name string // of its segment: host:port
	addr uint64 // of its buffer
	kill func()
}

// newUpstream starts a node with a buffer of size bytes over TCP; env adds to its
// environment.
func newUpstream(t testing.TB, size int, env ...string) *upstream {
	return startUpstream(t, map[string]any{"call": "start", "host": "127.0.0.1", "size": size}, append([]string{"MC_FORCE_TCP=1"}, env...))
}

// upstreamPython is the Python that has upstream's wheel; the test is skipped without one.
func upstreamPython(t testing.TB) string {
	python := os.Getenv("MOONCAKE_UPSTREAM_PYTHON")
	if python == "" {
		t.Skip("MOONCAKE_UPSTREAM_PYTHON names no Python with the package mooncake-transfer-engine-non-cuda; see doc.go")
	}
	return python
}

// startUpstream starts a node with these arguments for its first call.
func startUpstream(t testing.TB, start map[string]any, env []string) *upstream {
	u := &upstream{cmd: exec.Command(upstreamPython(t), "testdata/peer.py")}
	u.cmd.Env = append(append(os.Environ(), "MC_LOG_LEVEL=ERROR"), env...)
	u.cmd.Stderr = &u.log
	var err error
	u.in, err = u.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := u.cmd.StdoutPipe()
	require.NoError(t, err)
	u.out = bufio.NewScanner(out)
	u.out.Buffer(nil, 1<<20)
	require.NoError(t, u.cmd.Start())
	u.kill = sync.OnceFunc(func() {
		_ = u.cmd.Process.Kill()
		_ = u.cmd.Wait()
	})
	t.Cleanup(func() {
		u.kill()
		if t.Failed() {
			t.Logf("upstream said:\n%s", u.log.String())
		}
	})
	a := u.call(t, start)
	u.name, u.addr = a.Name, a.Addr
	return u
}

// answer is what a call gives; each call sets its own fields.
type answer struct {
	RC     int
	Name   string
	Addr   uint64
	SHA256 string
	Notes  [][2]string
	Error  string
}

// call runs a function of testdata/peer.py.
func (u *upstream) call(t testing.TB, args map[string]any) answer {
	t.Helper()
	text, err := json.Marshal(args)
	require.NoError(t, err)
	stuck := time.AfterFunc(patience, func() { _ = u.cmd.Process.Kill() })
	defer stuck.Stop()
	_, err = u.in.Write(append(text, '\n'))
	require.NoError(t, err)
	require.True(t, u.out.Scan(), "%v: the node ended: %v", args, u.out.Err())
	var a answer
	require.NoError(t, json.Unmarshal(u.out.Bytes(), &a), "%s", u.out.Text())
	require.Empty(t, a.Error, "%v", args)
	return a
}

// move reads or writes size bytes between the node's buffer and an address of a peer, and
// returns what the node returned.
func (u *upstream) move(t testing.TB, op, target string, offset int, addr uint64, size int) int {
	t.Helper()
	return u.call(t, map[string]any{"call": "move", "op": op, "target": target, "offset": offset, "addr": addr, "size": size}).RC
}

// fill makes a part of the node's buffer random, the same for each seed.
func (u *upstream) fill(t testing.TB, offset, size, seed int) string {
	t.Helper()
	return u.call(t, map[string]any{"call": "fill", "offset": offset, "size": size, "seed": seed}).SHA256
}

func (u *upstream) digest(t testing.TB, offset, size int) string {
	t.Helper()
	return u.call(t, map[string]any{"call": "digest", "offset": offset, "size": size}).SHA256
}
