package quic

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	quicgo "github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/identity"
	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// roleEnv makes the test binary a server with the configuration that it holds.
const roleEnv = "MOONCAKE_QUIC_TEST_SERVE"

const offered = 8 << 20

// offer is what a peer needs, on one line.
type offer struct {
	Endpoint transport.Endpoint
	Key      transport.Key
}

func play(text string) int {
	err := func() error {
		c := DefaultConfig()
		if err := json.Unmarshal([]byte(text), c); err != nil {
			return err
		}
		n := newNode(*c)
		if err := n.Start(context.Background(), &testHost{}); err != nil {
			return err
		}
		key, err := n.Register(context.Background(), transport.Region{ID: 1, Mem: make([]byte, offered), FD: -1, Access: transport.AccessRemote})
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(offer{n.Endpoint(), key}); err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		return n.Stop(context.Background())
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// serveProcess starts a server as a process of its own.
func serveProcess(t *testing.T, c *Config) (*exec.Cmd, offer) {
	text, err := json.Marshal(c)
	require.NoError(t, err)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	var o offer
	require.NoError(t, json.NewDecoder(bufio.NewReader(out)).Decode(&o))
	return cmd, o
}

// TestKilledPeer: a peer that is killed in the middle fails what was in flight, each
// operation once; its successor on the same port is told apart.
func TestKilledPeer(t *testing.T) {
	ca := newAuthority(t)
	cfg := newFiles(t).write(t, ca, ca, nodeCert()).config()
	server, o := serveProcess(t, cfg)
	client, _ := start(t, newFiles(t).write(t, ca, ca, nodeCert()).config())
	p, id := dialled(t, client, o.Endpoint, o.Key)
	const ops = 256
	mem := make([]byte, ops<<17) // Operations end in any order: each has its own.
	seen, failed, killed := map[uint64]bool{}, 0, false
	dst := make([]transport.Completion, 16)
	for next, open := uint64(0), 0; next < ops || open > 0; {
		for open < 64 && next < ops {
			at := int(next) % 64 * (128 << 10)
			kind := transport.Read
			if next%2 == 1 {
				kind = transport.Write
			}
			n, err := p.Submit([]transport.Op{{ID: next, Kind: kind, Local: mem[next<<17:][:128<<10], Remote: id, Offset: uint64(at)}})
			require.NoError(t, err)
			require.Equal(t, 1, n)
			next, open = next+1, open+1
		}
		n, err := p.Reap(within(t), dst)
		require.NoError(t, err)
		open -= n
		for _, c := range dst[:n] {
			require.False(t, seen[c.ID], "completed twice")
			seen[c.ID] = true
			if c.Status == transport.OK {
				continue
			}
			failed++
			require.Contains(t, []errs.Class{errs.ClassTransientPath, errs.ClassTransientPeer}, c.Class(), "%v", c.Err)
			if c.Status == transport.Quarantined {
				require.Equal(t, uint64(1), c.ID%2, "only writes")
			}
		}
		if len(seen) >= 32 && !killed {
			killed = true
			require.NoError(t, server.Process.Kill())
			_ = server.Wait()
		}
	}
	require.Len(t, seen, ops)
	require.Positive(t, failed)
	until(t, "the connections of the dead are gone", func() bool { return len(client.connections()) == 0 })

	e, err := wire.DecodeEndpoint(o.Endpoint.Blob)
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(e.Addrs[0])
	require.NoError(t, err)
	cfg.Port, err = strconv.Atoi(port)
	require.NoError(t, err)
	_, fresh := serveProcess(t, cfg)
	require.NotEqual(t, o.Endpoint.Incarnation, fresh.Endpoint.Incarnation)
	until(t, "the successor is told apart", func() bool {
		c := one(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: mem[:8], Remote: id})
		require.NotEqual(t, transport.OK, c.Status)
		require.Equal(t, errs.ClassTransientPeer, c.Class(), "%v", c.Err)
		return isStale(c.Err)
	})
	p2, id2 := dialled(t, client, fresh.Endpoint, fresh.Key)
	readOK(t, p2, id2, make([]byte, 100))
}

// isStale reports whether an operation failed because another process answered.
func isStale(err error) bool { return errors.Is(err, errStale) }

// TestResetKey: the successor of a process has its key, another process on the machine not.
func TestResetKey(t *testing.T) {
	ca := newAuthority(t)
	id, err := identity.Load(newFiles(t).write(t, ca, ca, nodeCert()).config(), time.Now())
	require.NoError(t, err)
	at := func(port int) quicgo.StatelessResetKey {
		k, err := resetKey(id, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		require.NoError(t, err)
		return *k
	}
	require.Equal(t, at(1), at(1))
	require.NotEqual(t, at(1), at(2))
}
