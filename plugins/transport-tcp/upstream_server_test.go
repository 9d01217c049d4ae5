package tcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/upstream"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// ask makes a request of upstream for a part of mem, which lies in r.mem or anywhere.
func ask(v2 bool, op uint8, mem []byte) []byte {
	b := bufferOf(mem)
	return (&upstream.Header{Size: b.Length, Addr: b.Addr, Op: op, V2: v2}).Put(make([]byte, upstream.HeaderSize))
}

func say(t testing.TB, c net.Conn, b ...[]byte) {
	_, err := c.Write(bytes.Join(b, nil))
	require.NoError(t, err)
}

func hear(t testing.TB, c net.Conn, n int) []byte {
	b := make([]byte, n)
	_, err := io.ReadFull(c, b)
	require.NoError(t, err)
	return b
}

// TestUpstreamServes: both versions over one connection, one request after the other, each
// write visible to the next read.
func TestUpstreamServes(t *testing.T) {
	r := newPair(t, 1<<20)
	c := r.rawConn(t)
	status := unhex(t, recordedStatus)
	for i, size := range []int{1, 7, 4096, 1<<20 - 3} {
		mem := r.mem[i : i+size]
		data := make([]byte, size)
		fillWith(data, byte(i+1))
		say(t, c, ask(true, upstream.Write, mem), data)
		require.Equal(t, status, hear(t, c, 8))
		require.Equal(t, data, mem, "in place before the status is out")
		say(t, c, ask(true, upstream.Read, mem))
		require.Equal(t, append(bytes.Clone(status), data...), hear(t, c, 8+size))
		say(t, c, ask(false, upstream.Read, mem))
		require.Equal(t, data, hear(t, c, size))
		fillWith(data, byte(i+101))
		say(t, c, ask(false, upstream.Write, mem), data, ask(false, upstream.Read, mem))
		require.Equal(t, data, hear(t, c, size))
	}
	s := r.server.Stats()
	require.EqualValues(t, 1, s.AcceptedUpstream)
	require.EqualValues(t, 1, s.ConnectionsIn)
	require.EqualValues(t, 12, s.ServedReads)
	require.EqualValues(t, 8, s.ServedWrites)
	require.Zero(t, s.DiscardedBytes)
	require.NoError(t, c.Close())
	until(t, "the connection is gone", func() bool { return r.server.Stats().ConnectionsIn == 0 })
}

// shut is a guard that refuses every write.
type shut struct{}

func (shut) BeginWrite(uint64, uint64, transport.Writer) transport.WriteID { return 0 }
func (shut) EndWrite(transport.WriteID)                                    {}

// TestUpstreamGuard: what the guard of a region refuses is rejected, and reads go on.
func TestUpstreamGuard(t *testing.T) {
	r := newPair(t, 4096)
	mem := make([]byte, 4096)
	_, err := r.server.Register(t.Context(), transport.Region{ID: 2, Mem: mem, FD: -1, Access: transport.AccessRemote, Guard: shut{}})
	require.NoError(t, err)
	for _, v2 := range []bool{false, true} {
		c := r.rawConn(t)
		say(t, c, ask(false, upstream.Read, mem))
		require.Equal(t, mem, hear(t, c, len(mem)))
		say(t, c, ask(v2, upstream.Write, mem[:100]), bytes.Repeat([]byte{7}, 100))
		if v2 {
			require.Equal(t, "010000005654434d", fmt.Sprintf("%x", hear(t, c, 8)))
		}
		_, err := c.Read(make([]byte, 1))
		require.Error(t, err, "the connection ends")
		require.Equal(t, make([]byte, 4096), mem)
	}
	require.Equal(t, map[string]uint64{"write-ended": 2}, r.server.Stats().Refused)
}

// TestUpstreamRejections: version 2 is told and closed, version 1 closed; no byte is touched,
// and no other peer notices.
func TestUpstreamRejections(t *testing.T) {
	r := newPair(t, 4096)
	around := make([]byte, 4*4096)
	for id, x := range map[transport.RegionID]struct {
		mem    []byte
		access transport.Access
	}{2: {around[4096:8192], transport.AccessRemote}, 3: {around[8192:12288], transport.AccessRemoteRead}, 4: {around[12288:], transport.AccessLocal}} {
		_, err := r.server.Register(context.Background(), transport.Region{ID: id, Mem: x.mem, FD: -1, Access: x.access})
		require.NoError(t, err)
	}
	header := func(h upstream.Header) []byte { return h.Put(make([]byte, upstream.HeaderSize)) }
	at := func(v2 bool, addr, size uint64) []byte {
		return header(upstream.Header{Addr: addr, Size: size, V2: v2})
	}
	base := bufferOf(around).Addr
	refused := map[string]uint64{}
	for _, x := range []struct {
		name, why string
		make      func(v2 bool) []byte
	}{
		{"of no region", "unknown-region", func(v2 bool) []byte { return ask(v2, upstream.Read, around[:10]) }},
		{"across the start", "unknown-region", func(v2 bool) []byte { return ask(v2, upstream.Read, around[4090:4100]) }},
		{"across two neighbours", "range", func(v2 bool) []byte { return ask(v2, upstream.Read, around[8190:8200]) }},
		{"to the neighbour and no further", "range", func(v2 bool) []byte { return ask(v2, upstream.Read, around[4096:12288]) }},
		{"closed to peers", "unknown-region", func(v2 bool) []byte { return ask(v2, upstream.Read, around[12300:12301]) }},
		{"write where only reads are allowed", "write-denied", func(v2 bool) []byte { return ask(v2, upstream.Write, around[8192:8193]) }},
		{"empty", "range", func(v2 bool) []byte { return at(v2, base+4096, 0) }},
		{"address 0", "unknown-region", func(v2 bool) []byte { return at(v2, 0, 1) }},
		{"overflow", "range", func(v2 bool) []byte { return at(v2, math.MaxUint64-3, 8) }},
		{"huge", "range", func(v2 bool) []byte { return at(v2, base+4096, 1<<55) }},
	} {
		for _, v2 := range []bool{false, true} {
			for _, first := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/v2=%v/first=%v", x.name, v2, first), func(t *testing.T) {
					before := bytes.Clone(around)
					c := r.rawConn(t)
					if !first {
						say(t, c, ask(false, upstream.Read, r.mem[:1]))
						hear(t, c, 1)
					}
					say(t, c, x.make(v2))
					if v2 {
						require.Equal(t, "010000005654434d", fmt.Sprintf("%x", hear(t, c, 8)))
					}
					closedByPeer(t, c)
					require.Equal(t, before, around)
					refused[x.why]++
				})
			}
		}
	}
	require.Equal(t, refused, r.server.Stats().Refused)
	c := r.rawConn(t)
	say(t, c, ask(true, upstream.Read, around[4096:8192]))
	hear(t, c, 8+4096) // A whole buffer, neighbours or not.
}

// TestUpstreamUnknownOpcode is refused. Nodes of upstream take it for a READ; a peer that
// meant something else must not get memory for it.
func TestUpstreamUnknownOpcode(t *testing.T) {
	r := newPair(t, 64)
	for _, op := range []uint8{2, 3, 0x7f} {
		c := r.rawConn(t)
		say(t, c, ask(false, op, r.mem))
		closedByPeer(t, c)
		c = r.rawConn(t)
		say(t, c, ask(true, upstream.Read, r.mem[:1]))
		hear(t, c, 9)
		say(t, c, ask(true, op, r.mem))
		require.Equal(t, upstream.PutStatus(make([]byte, 8), upstream.StatusRejected), hear(t, c, 8))
		closedByPeer(t, c)
	}
	require.EqualValues(t, 3, r.server.Stats().Foreign)
}

// TestUpstreamRejectedWrite: the status arrives although a large payload is on its way.
func TestUpstreamRejectedWrite(t *testing.T) {
	r := newPair(t, 64)
	payload := make([]byte, 32<<20)
	c := r.rawConn(t)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = c.Write(append(ask(true, upstream.Write, payload), payload...)) // Ends when the server closes.
	}()
	require.Equal(t, upstream.PutStatus(make([]byte, 8), upstream.StatusRejected), hear(t, c, 8))
	_ = c.Close()
	<-sent
}

func TestUpstreamSwitchedOff(t *testing.T) {
	r := newPair(t, 64, func(c *Config) { c.Upstream = new(bool) })
	c := r.rawConn(t)
	say(t, c, ask(true, upstream.Read, r.mem))
	closedByPeer(t, c)
	require.EqualValues(t, 1, r.server.Stats().Foreign)
	r.ok(t, r.read(make([]byte, 64)))
}

// TestUpstreamConnectionLimit: what is too much is closed; peers of ours are not touched.
func TestUpstreamConnectionLimit(t *testing.T) {
	r := newPair(t, 64, func(c *Config) { c.MaxUpstreamConnections = 3 })
	var open []net.Conn
	for range 3 {
		c := r.rawConn(t)
		say(t, c, ask(true, upstream.Read, r.mem))
		hear(t, c, 8+64)
		open = append(open, c)
	}
	c := r.rawConn(t)
	say(t, c, ask(true, upstream.Read, r.mem))
	closedByPeer(t, c)
	require.EqualValues(t, 1, r.server.Stats().Refused["busy"])
	r.ok(t, r.read(make([]byte, 64)))
	require.NoError(t, open[0].Close())
	until(t, "the node accepts connections again", func() bool {
		c := r.rawConn(t)
		say(t, c, ask(true, upstream.Read, r.mem))
		_, err := io.ReadFull(c, make([]byte, 8+64))
		return err == nil
	})
}

// TestUpstreamSlowPeers: a peer that stops in the middle, on either side, is cut and holds nothing.
func TestUpstreamSlowPeers(t *testing.T) {
	r := newPair(t, 16<<20, func(c *Config) { c.StallTimeout, c.HandshakeTimeout = ms(40), ms(40) })
	for _, msg := range [][]byte{
		ask(true, upstream.Read, r.mem)[:20],
		append(ask(true, upstream.Write, r.mem[:100]), 1, 2, 3),
	} {
		c := r.rawConn(t)
		say(t, c, msg)
		closedByPeer(t, c)
	}
	// The server has closed the connection that wrote: this one, which reads the same memory, may begin.
	say(t, r.rawConn(t), ask(true, upstream.Read, r.mem))
	until(t, "the peer that reads nothing is cut", func() bool {
		s := r.server.Stats()
		return s.AcceptedUpstream == 2 && s.ConnectionsIn == 0
	})
	require.NoError(t, r.server.Deregister(context.Background(), 1))
}

// TestUpstreamDeregister: Deregister waits for a request in flight, then cuts it off; afterwards the
// address is refused.
func TestUpstreamDeregister(t *testing.T) {
	r := newPair(t, 4096)
	idle := r.rawConn(t)
	say(t, idle, ask(true, upstream.Read, r.mem))
	hear(t, idle, 8+4096)
	r.let(t)
	c := r.rawConn(t)
	say(t, c, ask(true, upstream.Write, r.mem), make([]byte, 100))
	r.held(t)
	require.NoError(t, r.server.Deregister(context.Background(), 1))
	fillWith(r.mem, 1) // The race detector watches.
	closedByPeer(t, c)
	say(t, idle, ask(true, upstream.Read, r.mem))
	require.Equal(t, upstream.PutStatus(make([]byte, 8), upstream.StatusRejected), hear(t, idle, 8))
}

// TestUpstreamStop ends connections that are idle and those in the middle of a request.
func TestUpstreamStop(t *testing.T) {
	r := newPair(t, 4096, func(c *Config) { c.StallTimeout = ms(2000) })
	idle, stuck := r.rawConn(t), r.rawConn(t)
	say(t, idle, ask(true, upstream.Read, r.mem))
	hear(t, idle, 8+4096)
	r.let(t)
	say(t, stuck, ask(true, upstream.Write, r.mem), make([]byte, 100))
	r.held(t)
	require.NoError(t, r.server.Stop(context.Background()))
	closedByPeer(t, idle)
	closedByPeer(t, stuck)
	require.Zero(t, r.server.Stats().ConnectionsIn)
}
