package tcp

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/upstream"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// oneRequest serves the memory of a pair as releases of upstream up to 0.3.9 do: one request on
// each connection, without a status and without a check.
type oneRequest struct {
	r      *pair
	mu     sync.Mutex
	served []upstream.Header
	// hurt changes what happens to the WRITE with this number, from 1: it returns how much of it is
	// read, below 0 for an orderly end before that, and what is stored at its end.
	hurt   func(write, size int) (read int, last byte)
	writes int
}

func (s *oneRequest) each(c net.Conn) {
	h, ok := request(c)
	if !ok {
		return
	}
	at := h.Addr - bufferOf(s.r.mem).Addr
	if h.Op == upstream.Read {
		s.mu.Lock()
		b := bytes.Clone(s.r.mem[at:][:h.Size])
		s.served = append(s.served, h)
		s.mu.Unlock()
		_, _ = c.Write(b)
		return
	}
	s.mu.Lock()
	s.writes++
	n, hurt := s.writes, s.hurt
	s.mu.Unlock()
	take := int(h.Size)
	var last byte
	if hurt != nil {
		take, last = hurt(n, take)
	}
	if take < 0 {
		_ = c.(*net.TCPConn).CloseWrite() // An orderly end, as that of a peer that has read all.
		return
	}
	b := make([]byte, take)
	if _, err := io.ReadFull(c, b); err != nil {
		return
	}
	if last != 0 && take > 0 {
		b[take-1] = last
	}
	s.mu.Lock()
	copy(s.r.mem[at:], b)
	s.served = append(s.served, h)
	s.mu.Unlock()
}

func closing(t testing.TB, size int, change ...func(*Config)) (*pair, *oneRequest, *scripted) {
	s := &oneRequest{}
	r, peer := against(t, 1, size, s.each, change...)
	s.r = r
	return r, s, peer
}

// TestUpstreamClosesAfterEachRequest: no operation fails at a peer that does, whatever comes first,
// and what is stored is what was written.
func TestUpstreamClosesAfterEachRequest(t *testing.T) {
	for name, first := range map[string]transport.OpKind{"write first": transport.Write, "read first": transport.Read} {
		t.Run(name, func(t *testing.T) {
			const size = 1 << 20
			r, s, _ := closing(t, size, func(c *Config) { c.ConnectionsPerPeer, c.SliceBytes = 3, 64<<10 })
			want := bytes.Clone(r.mem)
			random := rand.New(rand.NewPCG(1, 2))
			for i := range 200 {
				var ops []transport.Op
				for id := range 1 + random.IntN(4) { // Each has a quarter of the memory.
					at, n := id*size/4+random.IntN(size/8), 1+random.IntN(size/8)
					kind := transport.Read
					if i == 0 && first == transport.Write || i > 0 && random.IntN(2) == 0 {
						kind = transport.Write
					}
					buf := make([]byte, n)
					if kind == transport.Write {
						fillWith(buf, byte(i+id))
						copy(want[at:], buf)
					}
					ops = append(ops, patient(transport.Op{ID: uint64(id), Kind: kind, Local: buf, Remote: r.id, Offset: uint64(at)}))
				}
				for id, got := range r.run(t, ops...) {
					require.Equal(t, transport.OK, got.Status, "round %d: %v", i, got.Err)
					require.True(t, bytes.Equal(ops[id].Local, want[ops[id].Offset:][:len(ops[id].Local)]), "round %d", i)
				}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			require.True(t, bytes.Equal(want, r.mem))
		})
	}
}

// TestUpstreamClosingRequests: once it is known that a peer closes, a write costs two connections,
// with one request each, and a read one.
func TestUpstreamClosingRequests(t *testing.T) {
	r, s, peer := closing(t, 64)
	r.ok(t, r.read(make([]byte, 64)))
	until(t, "the path has learned it", func() bool { return r.client.Stats().ConnectionsOut == 0 })
	before := peer.accepted()
	r.ok(t, r.write(bytes.Repeat([]byte{7}, 64)))
	r.ok(t, r.read(make([]byte, 64)))
	require.Equal(t, 3, peer.accepted()-before)
	s.mu.Lock()
	defer s.mu.Unlock()
	addr := bufferOf(r.mem).Addr
	require.Equal(t, []upstream.Header{{Size: 64, Addr: addr}, {Size: 64, Addr: addr, Op: upstream.Write}, {Size: 1, Addr: addr + 63}, {Size: 64, Addr: addr}}, s.served)
}

// TestUpstreamClosingLoses: a write is not OK where such a peer did not take all of it, or does not
// have it afterwards.
func TestUpstreamClosingLoses(t *testing.T) {
	const size = 8 << 20 // More than sockets hold.
	for name, hurt := range map[string]func(write, size int) (int, byte){
		"it takes half":         func(_, size int) (int, byte) { return size / 2, 0 },
		"it takes nothing":      func(_, _ int) (int, byte) { return 0, 0 },
		"it ends in order":      func(_, _ int) (int, byte) { return -1, 0 },
		"it stores other bytes": func(_, size int) (int, byte) { return size, 9 },
	} {
		t.Run(name, func(t *testing.T) {
			r, s, _ := closing(t, size)
			r.ok(t, patient(r.write(make([]byte, size))))
			s.mu.Lock()
			s.hurt = hurt
			s.mu.Unlock()
			for range 5 {
				got := r.run(t, patient(r.write(make([]byte, size))))[0]
				require.NotEqual(t, transport.OK, got.Status)
				require.Equal(t, errs.TransferFail, errs.CodeOf(got.Err), "%v", got.Err)
			}
			s.mu.Lock()
			s.hurt = nil
			s.mu.Unlock()
			r.ok(t, patient(r.write(make([]byte, size))))
		})
	}
}

// TestUpstreamKeepsConnections: a peer that keeps connections and ends one under a request is not
// taken for one that closes each.
func TestUpstreamKeepsConnections(t *testing.T) {
	var ends atomic.Int64
	r, peer := against(t, 1, 64, func(c net.Conn) {
		for n := 0; ; n++ {
			h, more := request(c)
			if !more || n == 3 && ends.Add(1) == 1 {
				return
			}
			_, _ = c.Write(make([]byte, h.Size))
		}
	})
	for range 3 {
		r.ok(t, r.read(make([]byte, 64)))
	}
	got := r.run(t, r.read(make([]byte, 64)))[0]
	require.Equal(t, transport.Failed, got.Status)
	for range 3 {
		r.ok(t, patient(r.read(make([]byte, 64))))
	}
	require.Equal(t, 2, peer.accepted())
}
