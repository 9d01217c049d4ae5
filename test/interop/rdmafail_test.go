package interop

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestNumbersOfQueuePairsOverRDMA: where they differ, both sides refuse, and ours says what
// to do, to its own user and to the peer.
func TestNumbersOfQueuePairsOverRDMA(t *testing.T) {
	u := newUpstreamRDMA(t, 4096, theirDevice)
	n := newRDMANode(t, 4096, rdmaOptions{config: `{"host":"127.0.0.1","devices":["rxe1"],"qp_per_endpoint":3}`})
	n.dir.relayTo(t, u)
	request := n.request(transport.Write, u, 0, 100)
	request.Deadline = soon()
	err := n.Transfer(t.Context(), []transfer.Request{request})[0].Err
	t.Log(err)
	require.ErrorContains(t, err, "MC_NUM_QP_PER_EP")
	require.Equal(t, errs.ClassTransientPeer, errs.ClassOf(err))
	require.NotZero(t, u.move(t, "write", n.name(), 0, n.addr(0), 100))
	told := 0
	for _, s := range n.dir.messages() {
		if s.side == "to us" {
			_, got := s.parse(t)
			require.Contains(t, got.Reply, "MC_NUM_QP_PER_EP")
			told++
		}
	}
	require.NotZero(t, told)
}

// TestRestartsOverRDMA: a node that restarts under its name and the other node reach each other
// again, whichever of them had set up the connection.
func TestRestartsOverRDMA(t *testing.T) {
	const size, theirPort = 100_001, 16123
	// These devices take 7 attempts for no limit, others do not.
	ours := rdmaOptions{port: 16223, config: `{"host":"127.0.0.1","devices":["` + ourDevice + `"],"retry_count":6}`}
	for _, c := range []struct {
		name          string
		ours          bool // whether our node is it that restarts
		before, after []string
	}{
		{"theirs, we had connected", false, []string{"we write", "they write"}, []string{"we write", "they write"}},
		{"theirs, it had connected", false, []string{"they write", "we write"}, []string{"we read", "we write", "they write"}},
		{"theirs, it comes first", false, []string{"they write"}, []string{"they write", "we write"}},
		{"ours", true, []string{"they write", "we write"}, []string{"we write", "they write"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			requireDevices(t)
			// The port of a daemon that was killed is free at once, in the VM alone.
			require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/tcp_max_tw_buckets", []byte("0"), 0))
			// It takes one of two ports, of which one is not free.
			env := []string{fmt.Sprintf("MC_MIN_RPC_PORT=%d", theirPort), fmt.Sprintf("MC_MAX_RPC_PORT=%d", theirPort+1)}
			taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", theirPort+1))
			require.NoError(t, err)
			defer taken.Close()
			u := newUpstreamRDMA(t, size, theirDevice, env...)
			n := newRDMANode(t, size, ours)
			move := func(steps []string, seed int) {
				for i, step := range steps {
					began := time.Now()
					want := u.fill(t, 0, size, seed+i)
					switch step {
					case "they write":
						require.Zero(t, u.move(t, "write", n.name(), 0, n.addr(0), size), step)
					case "we read":
						n.do(t, n.request(transport.Read, u, 0, size))
					case "we write":
						random(n.mem, seed+i)
						want = digest(n.mem)
						write := []transfer.Request{n.request(transport.Write, u, 0, size)}
						// The outcome of one that the node before may have got is unknown.
						if err := n.Transfer(t.Context(), write)[0].Err; err != nil && i == 0 && seed > 1 {
							require.ErrorIs(t, err, transfer.ErrQuarantined)
							t.Logf("%s, indeterminate: %v", step, time.Since(began).Round(time.Millisecond))
							n.do(t, write...)
						} else {
							require.NoError(t, err)
						}
					}
					require.Equal(t, want, digest(n.mem), step)
					require.Equal(t, want, u.digest(t, 0, size), step)
					t.Logf("%s: %v", step, time.Since(began).Round(time.Millisecond))
				}
			}
			move(c.before, 1)
			their, our := u.name, n.name()
			if c.ours {
				n.stop()
				n = newRDMANode(t, size, ours)
			} else {
				u.kill()
				u = newUpstreamRDMA(t, size, theirDevice, env...)
			}
			require.Equal(t, []string{their, our}, []string{u.name, n.name()})
			move(c.after, 11)
		})
	}
}

// TestKilledUpstreamOverRDMA: a node that is killed in the middle fails what is in flight,
// within the deadline, and says which memory may still be written.
func TestKilledUpstreamOverRDMA(t *testing.T) {
	requireDevices(t)
	n := newRDMANode(t, rdmaSpan, rdmaOptions{})
	for _, kind := range []transport.OpKind{transport.Read, transport.Write} {
		u := newUpstreamRDMA(t, rdmaSpan, theirDevice)
		n.do(t, n.request(transport.Write, u, 0, 64))
		request := n.request(kind, u, 0, rdmaSpan)
		request.Deadline = time.Now().Add(4 * time.Second)
		b, err := n.NewBatch(1)
		require.NoError(t, err)
		require.NoError(t, b.Submit([]transfer.Request{request})[0].Err)
		u.kill()
		began := time.Now()
		require.NoError(t, b.Wait(t.Context()))
		s, err := b.Status(0)
		require.NoError(t, err)
		require.Error(t, s.Err)
		t.Logf("%v: after %v: %v", kind, time.Since(began).Round(time.Millisecond), s.Err)
		require.NotEqual(t, errs.ClassPermanent, errs.ClassOf(s.Err))
		require.Equal(t, kind == transport.Write, errors.Is(s.Err, transfer.ErrQuarantined), "only a write may still be in flight")
		require.NoError(t, b.Free())
	}
}
