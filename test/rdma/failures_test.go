package rdma

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	te "github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// part is the size of the requests that a fault comes into the middle of.
const part = 1 << 20

// eventually asks until the answer is yes or the context ends.
func eventually(ctx context.Context, t testing.TB, what string, yes func() bool) {
	t.Helper()
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		if yes() {
			tick.Stop()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			require.FailNow(t, what, "it did not happen in time")
		}
	}
}

// inTheMiddle tries until a fault comes into the middle of something, with twice as much to
// move each time: a quick machine, or one that stalls at the wrong moment, is through before.
func inTheMiddle(t testing.TB, what string, try func(times int) bool) {
	t.Helper()
	for times := 1; !try(times); times *= 2 {
		t.Logf("%s: it was over before", what)
		require.Less(t, times, 64, what)
	}
}

// over reports whether nothing of a batch is left to do.
func over(b *te.Batch) bool { return b.BatchStatus().State.Terminal() }

// parts are requests for all of mem, to or from the start of a peer's memory.
func parts(kind transport.OpKind, mem []byte, p *peer, deadline time.Time) []te.Request {
	var reqs []te.Request
	for at := 0; at < len(mem); at += part {
		reqs = append(reqs, te.Request{Kind: kind, Local: mem[at:][:part], Peer: p.job.Name, Addr: p.Addr + uint64(at), Deadline: deadline})
	}
	return reqs
}

// submit starts requests in a batch, which is freed with the test.
func submit(t testing.TB, n *node, reqs []te.Request) *te.Batch {
	t.Helper()
	b, err := n.Transfer.NewBatch(len(reqs))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Free()) })
	for i, s := range b.Submit(reqs) {
		require.NoError(t, s.Err, "request %d", i)
	}
	return b
}

// deviceDown takes a device down in the middle of a batch that is striped over two, on this
// side or the peer's, and brings it back.
func deviceDown(ctx context.Context, t *testing.T) {
	const size = 48 * part
	addDevices(ctx, t)
	t.Cleanup(func() { removeDevices(context.WithoutCancel(ctx), t) })
	url := metadataServer(t)
	p := startPeer(ctx, t, peerJob{Name: "127.0.0.1:17001", Metadata: url, Devices: []string{deviceC, deviceD}, Size: size, Seed: 5})
	n, mem := initiator(ctx, t, url, size, deviceA, deviceB)
	model := make([]byte, size)
	for i, c := range []struct {
		name           string
		kind           transport.OpKind
		device, netdev string
	}{
		{"write, this side's device", transport.Write, deviceB, interfaceB},
		{"write, the peer's device", transport.Write, deviceD, interfaceD},
		{"read, the peer's device", transport.Read, deviceD, interfaceD},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Cleanup(func() { setUp(t, c.netdev, true) })
			inTheMiddle(t, c.device+" goes down in the middle of a batch", func(times int) (caught bool) {
				fill(mem, uint64(20+i))
				copy(model, mem)
				// Connections are there from now on, and so is what a read is to find.
				run(ctx, t, n, parts(transport.Write, mem, p, time.Time{})...)
				if c.kind == transport.Write {
					fill(mem, uint64(30+i))
					copy(model, mem)
				} else {
					clear(mem)
				}
				reqs := slices.Repeat(parts(c.kind, mem, p, time.Time{}), times)
				b := submit(t, n, reqs)
				eventually(ctx, t, "both devices carry the batch", func() bool { return inFlight(n, p, c.device) > 0 || over(b) })
				setUp(t, c.netdev, false)
				caught = !over(b)
				down := time.Now()
				require.NoError(t, b.Wait(ctx))
				t.Logf("the batch ended %v after %s went down", time.Since(down).Round(time.Millisecond), c.device)
				for i := range reqs {
					s, err := b.Status(i)
					require.NoError(t, err)
					require.Equal(t, te.Completed, s.State, "request %d: %v", i, s.Err)
				}
				require.True(t, bytes.Equal(model, mem), "this side's bytes")
				require.Equal(t, checksum(model), p.ask(ctx, t, peerAsk{Sum: true, Length: size}).Sum, "the peer's bytes")
				t.Log(rails(n, p))

				setUp(t, c.netdev, true)
				at, up := moved(n, p, c.device), time.Now()
				eventually(ctx, t, "the device carries bytes again", func() bool {
					run(ctx, t, n, parts(c.kind, mem[:8*part], p, time.Time{})...)
					return moved(n, p, c.device) > at || t.Failed()
				})
				t.Logf("%s carries bytes again %v after it came up", c.device, time.Since(up).Round(time.Millisecond))
				t.Log(rails(n, p))
				return caught
			})
		})
	}
}

// setUp takes an interface up or down, as ip link does; starting a program takes too long
// on an emulated processor to come into the middle of something.
func setUp(t testing.TB, name string, up bool) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	req, err := unix.NewIfreq(name)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, req))
	flags := req.Uint16() &^ unix.IFF_UP
	if up {
		flags |= unix.IFF_UP
	}
	req.SetUint16(flags)
	require.NoError(t, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req), "%s up: %v", name, up)
}

// railsOf are the ways to a peer.
func railsOf(n *node, p *peer) (out []te.RailStats) {
	for _, l := range n.Transfer.Paths() {
		if l.Peer == p.job.Name {
			out = append(out, l.Rails...)
		}
	}
	return out
}

// moved is how many bytes went over the rails of a device, on either side.
func moved(n *node, p *peer, device string) (bytes uint64) {
	for _, r := range railsOf(n, p) {
		if r.Local == device || r.Remote == device {
			bytes += r.Bytes
		}
	}
	return bytes
}

// inFlight returns how many bytes are in flight on the rails of a device, on either side.
func inFlight(n *node, p *peer, device string) (bytes uint64) {
	for _, r := range railsOf(n, p) {
		if r.Local == device || r.Remote == device {
			bytes += r.Inflight
		}
	}
	return bytes
}

func rails(n *node, p *peer) string {
	var lines []string
	for _, r := range railsOf(n, p) {
		lines = append(lines, fmt.Sprintf("%s-%s %s: %d MiB, %d errors, %d pauses", r.Local, r.Remote, r.State, r.Bytes>>20, r.Errors, r.Pauses))
	}
	return strings.Join(slices.Sorted(slices.Values(lines)), "\n")
}

// peerKilled ends one of two peers with SIGKILL in the middle of the requests to both.
func peerKilled(ctx context.Context, t *testing.T) {
	const size = 32 * part
	const patience = 15 * time.Second
	url := metadataServer(t)
	start := func(name, device string) *peer {
		return startPeer(ctx, t, peerJob{Name: name, Metadata: url, Devices: []string{device}, Size: size, Seed: 9})
	}
	victim, other := start("127.0.0.1:17001", deviceB), start("127.0.0.1:17002", deviceB)
	n, mem := initiator(ctx, t, url, 2*size, deviceA)
	fill(mem, 31)
	inTheMiddle(t, "a peer is killed in the middle of a batch", func(times int) (caught bool) {
		// Connections are there from now on, so that the requests are in flight at once.
		run(ctx, t, n, parts(transport.Write, mem[:part], victim, time.Time{})...)
		run(ctx, t, n, parts(transport.Write, mem[:part], other, time.Time{})...)
		deadline := time.Now().Add(patience)
		reqs := slices.Repeat(parts(transport.Write, mem[:size], victim, deadline), times)
		lost := submit(t, n, reqs)
		kept := submit(t, n, parts(transport.Write, mem[size:], other, time.Time{}))
		eventually(ctx, t, "bytes are on their way", func() bool { return inFlight(n, victim, deviceB) > 0 || over(lost) })
		require.NoError(t, victim.proc.Signal(syscall.SIGKILL))

		// The deadline of the requests is the promise; the rest is for an emulated processor.
		within, cancel := context.WithDeadline(ctx, deadline.Add(patience))
		defer cancel()
		require.NoError(t, lost.Wait(within), "the requests of a dead peer end")
		for i := range reqs {
			s, err := lost.Status(i)
			require.NoError(t, err)
			if s.State == te.Completed {
				continue
			}
			require.Contains(t, []te.State{te.Failed, te.Timeout}, s.State)
			require.Error(t, s.Err)
			if !caught {
				t.Logf("request %d, %v before the deadline: %v", i, deadline.Sub(s.Done).Round(time.Millisecond), s.Err)
			}
			caught = true
		}
		require.NoError(t, kept.Wait(ctx), "the others are not kept")
		assert.Equal(t, te.Completed, kept.BatchStatus().State, "%v", kept.BatchStatus().Err)
		assert.Equal(t, checksum(mem[size:]), other.ask(ctx, t, peerAsk{Sum: true, Length: size}).Sum, "the other peer's bytes")

		victim.proc.Kill()
		victim = start(victim.job.Name, deviceB)
		eventually(ctx, t, "the peer is reached again under its name", func() bool {
			for _, r := range n.Transfer.Transfer(ctx, parts(transport.Write, mem[:size], victim, time.Now().Add(patience))) {
				if r.Err != nil {
					t.Logf("after the restart: %v", r.Err)
					return false
				}
			}
			return true
		})
		assert.Equal(t, checksum(mem[:size]), victim.ask(ctx, t, peerAsk{Sum: true, Length: size}).Sum, "the restarted peer's bytes")
		return caught
	})
}
