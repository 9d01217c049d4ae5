package interop

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// rdmaSpan is the memory of each side over RDMA, rdmaParts what is moved: odd places and sizes
// around the 64 KiB slices of theirs and ours of 1 MiB. Software devices are slow.
const rdmaSpan = 4 << 20

// rdmaCount requests of rdmaSize bytes go at once.
const rdmaCount, rdmaSize = 300, 4099

var rdmaParts = []struct{ offset, size int }{
	{0, 1}, {3, 7}, {4095, 2}, {1, 4095}, {65535, 65536}, {17, 65537}, {5, 64<<10 + 16<<10 + 1}, {1<<20 - 1, 1<<20 + 3}, {777, 3<<20 + 13},
}

// rdmaWays are the ways in which the two sides may meet. The first makes the numbers of
// queue pairs differ on the two sides, on these devices which count them alike.
var rdmaWays = []struct {
	name, theirs string
	ours         rdmaOptions
}{
	{"one device of theirs, two of ours", theirDevice, rdmaOptions{config: `{"host":"127.0.0.1"}`}},
	{"two devices each", theirDevice + "," + ourDevice, rdmaOptions{config: `{"host":"127.0.0.1"}`}},
	{"one device each", theirDevice, rdmaOptions{}},
	{"one round", theirDevice, rdmaOptions{oneRound: true}},
}

// requireRounds checks that each connection was set up in one round or in two, as the name
// of a way says, by the messages that one side sent.
func requireRounds(t *testing.T, seen []setup, side string, oneRound bool) {
	t.Helper()
	last := map[string]bool{} // by the pair of devices: whether it was the second round
	for _, s := range seen {
		asked, got := s.parse(t)
		require.Equal(t, side, s.side, "%s", s.request)
		require.Empty(t, got.Reply)
		require.NotNil(t, asked.Ready, "both know of the second round: %s", s.request)
		last[asked.Local+" "+asked.Peer] = *asked.Ready
	}
	require.NotEmpty(t, last, "no handshake was seen")
	for pair, second := range last {
		require.Equal(t, !oneRound, second, "the last message about %s", pair)
	}
}

// TestUpstreamReachesUsOverRDMA: its node sets the connections up, and reads and writes the
// memory of ours.
func TestUpstreamReachesUsOverRDMA(t *testing.T) {
	for _, w := range rdmaWays {
		t.Run(w.name, func(t *testing.T) {
			u := newUpstreamRDMA(t, rdmaSpan, w.theirs)
			n := newRDMANode(t, rdmaSpan, w.ours)
			require.Equal(t, n.addr(0), u.call(t, map[string]any{"call": "first", "target": n.name()}).Addr, "it reads our descriptor")
			began, moved := time.Now(), 0
			for i, part := range rdmaParts {
				local := n.mem[part.offset:][:part.size]
				want := u.fill(t, part.offset, part.size, i)
				require.Zero(t, u.move(t, "write", n.name(), part.offset, n.addr(part.offset), part.size))
				require.Equal(t, want, digest(local), "%d bytes at %d written", part.size, part.offset)

				random(local, i)
				require.Zero(t, u.move(t, "read", n.name(), part.offset, n.addr(part.offset), part.size))
				require.Equal(t, digest(local), u.digest(t, part.offset, part.size), "%d bytes at %d read", part.size, part.offset)
				moved += 2 * part.size
			}
			t.Logf("%d bytes in %v", moved, time.Since(began).Round(time.Millisecond))
			want := u.fill(t, 0, rdmaCount*rdmaSize, 50)
			var offsets, sizes []int
			var addrs []uint64
			for i := range rdmaCount {
				at := i * 7 % rdmaCount * rdmaSize
				offsets, addrs, sizes = append(offsets, at), append(addrs, n.addr(at)), append(sizes, rdmaSize)
			}
			require.Zero(t, u.call(t, map[string]any{"call": "batch", "op": "write", "target": n.name(), "offsets": offsets, "addrs": addrs, "sizes": sizes}).RC)
			require.Equal(t, want, digest(n.mem[:rdmaCount*rdmaSize]), "many at once")
			requireRounds(t, n.dir.messages(), "to us", w.ours.oneRound)
		})
	}
}

// TestWeReachUpstreamOverRDMA: our node sets the connections up, and reads and writes the memory
// of its.
func TestWeReachUpstreamOverRDMA(t *testing.T) {
	for _, w := range rdmaWays {
		t.Run(w.name, func(t *testing.T) {
			u := newUpstreamRDMA(t, rdmaSpan, w.theirs)
			n := newRDMANode(t, rdmaSpan, w.ours)
			n.dir.relayTo(t, u)
			began, moved := time.Now(), 0
			for i, part := range rdmaParts {
				local := n.mem[part.offset:][:part.size]
				want := u.fill(t, part.offset, part.size, i)
				n.do(t, n.request(transport.Read, u, part.offset, part.size))
				require.Equal(t, want, digest(local), "%d bytes at %d read", part.size, part.offset)

				random(local, i+100)
				n.do(t, n.request(transport.Write, u, part.offset, part.size))
				require.Equal(t, digest(local), u.digest(t, part.offset, part.size), "%d bytes at %d written", part.size, part.offset)
				moved += 2 * part.size
			}
			t.Logf("%d bytes in %v", moved, time.Since(began).Round(time.Millisecond))
			random(n.mem, 50)
			var requests []transfer.Request
			for i := range rdmaCount {
				requests = append(requests, n.request(transport.Write, u, i*7%rdmaCount*rdmaSize, rdmaSize))
			}
			n.do(t, requests...)
			require.Equal(t, digest(n.mem[:rdmaCount*rdmaSize]), u.digest(t, 0, rdmaCount*rdmaSize), "many at once")
			requireRounds(t, n.dir.messages(), "to them", w.ours.oneRound)
		})
	}
}

// TestBothWaysOverRDMA: both set a connection up at the same time, so that the messages
// cross, and go on at the same time in parts of their memories that do not meet.
func TestBothWaysOverRDMA(t *testing.T) {
	const size, count, half = 20_011, 40, 1 << 20
	for range 3 {
		u := newUpstreamRDMA(t, 2*half, theirDevice)
		n := newRDMANode(t, 2*half, rdmaOptions{})
		n.dir.relayTo(t, u)
		n.dir.cross = map[string]chan struct{}{"to us": make(chan struct{}), "to them": make(chan struct{})}
		for round := range 3 {
			random(n.mem[half:], round)
			ours := digest(n.mem[half:][:count*size])
			theirs := u.fill(t, 0, count*size, round)
			failed := make(chan error, 1)
			go func() {
				var err error
				for i := range count {
					err = errors.Join(err, n.Transfer(t.Context(), []transfer.Request{n.request(transport.Write, u, half+i*size, size)})[0].Err)
				}
				failed <- err
			}()
			rc := 0
			for i := range count {
				rc |= u.move(t, "write", n.name(), i*size, n.addr(i*size), size)
			}
			require.NoError(t, <-failed)
			require.Zero(t, rc)
			require.Equal(t, ours, u.digest(t, half, count*size), "what we wrote")
			require.Equal(t, theirs, digest(n.mem[:count*size]), "what they wrote")
		}
		// Both sides have begun, and have agreed on the same queue pairs.
		pairs, begun := map[string][]uint32{}, map[string]bool{}
		for _, s := range n.dir.messages() {
			asked, got := s.parse(t)
			begun[s.side] = true
			for _, m := range []message{asked, got} {
				require.Empty(t, m.Reply)
				if len(m.QueuePairs) > 0 {
					if pairs[m.Local] == nil {
						pairs[m.Local] = m.QueuePairs
					}
					require.Equal(t, pairs[m.Local], m.QueuePairs, "%v", n.dir.messages())
				}
			}
		}
		require.Len(t, begun, 2)
		require.Len(t, pairs, 2)
	}
}

// TestNotificationsOverRDMA: a notification comes after the bytes that it is about.
func TestNotificationsOverRDMA(t *testing.T) {
	const size = 70_001
	u := newUpstreamRDMA(t, size, theirDevice)
	n := newRDMANode(t, size, rdmaOptions{})
	b, err := n.NewBatch(1)
	require.NoError(t, err)
	random(n.mem, 7)
	require.NoError(t, b.SubmitNotify([]transfer.Request{n.request(transport.Write, u, 0, size)}, metadata.Notification{Name: "us", Message: "written"})[0].Err)
	require.NoError(t, b.Wait(t.Context()))
	require.NoError(t, b.Free())
	require.Equal(t, [][2]string{{"us", "written"}}, u.call(t, map[string]any{"call": "notes"}).Notes)
	require.Equal(t, digest(n.mem), u.digest(t, 0, size))
	want := u.fill(t, 0, size, 8)
	require.Zero(t, u.call(t, map[string]any{
		"call": "move", "op": "write", "target": n.name(), "offset": 0, "addr": n.addr(0), "size": size, "notify": []string{"them", "done"},
	}).RC)
	require.Equal(t, []metadata.Notification{{Name: "them", Message: "done"}}, n.Notifications())
	require.Equal(t, want, digest(n.mem))
}
