package tcp

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// talk is a scripted peer of r's client: it says hello, and script does the rest.
func talk(t *testing.T, r *pair, script func(c net.Conn)) *scripted {
	s := newScripted(t)
	s.serve(func(c net.Conn) {
		if _, err := io.ReadFull(c, make([]byte, frame.Size)); err != nil {
			return
		}
		if _, err := c.Write(helloOf(r.server.incarnation)); err == nil {
			script(c)
		}
	})
	blob := frame.Endpoint{Incarnation: r.server.incarnation, Addrs: []string{fmt.Sprintf("127.0.0.1:%d", s.port())}}.Encode()
	r.dial(t, transport.Endpoint{Blob: blob, Incarnation: r.server.incarnation})
	return s
}

// TestGoodbyeOfAPeer: one that stops has answered all that it carried out, so that the rest
// has failed. One that leaves for another reason may have more.
func TestGoodbyeOfAPeer(t *testing.T) {
	for why, want := range map[frame.Reason]transport.Status{frame.ReasonStopping: transport.Failed, frame.ReasonBadFrame: transport.Quarantined} {
		for _, large := range []bool{false, true} {
			t.Run(fmt.Sprint(why.Info().Label, large), func(t *testing.T) {
				size := 4096
				if large {
					size = 16 << 20 // More than sockets hold: the writer is at it when its peer leaves.
				}
				r := newPair(t, size, single)
				talk(t, r, func(c net.Conn) {
					if _, err := io.ReadFull(c, make([]byte, frame.Size+1)); err == nil {
						_, _ = c.Write(encoded(why.Answer(frame.GoAway, 0)))
					} // It closes with input unread, which resets the connection.
				})
				c := r.run(t, r.write(make([]byte, size)))[0]
				require.Equal(t, want, c.Status, "%v", c.Err)
				if why == frame.ReasonStopping {
					require.Equal(t, errs.ClassTransientPeer, c.Class(), "%v", c.Err)
				}
			})
		}
	}
}

// TestRefusedInChunks: a Write of which a chunk was refused is indeterminate only if another chunk is.
func TestRefusedInChunks(t *testing.T) {
	for name, c := range map[string]struct {
		second frame.Type // to the second chunk; 0 closes the connection
		want   transport.Status
	}{
		"both refused": {frame.Error, transport.Failed},
		"one stored":   {frame.Done, transport.Failed},
		"one unknown":  {0, transport.Quarantined},
	} {
		t.Run(name, func(t *testing.T) {
			const size = 8192
			r := newPair(t, size, single, func(c *Config) { c.SliceBytes = size / 2 })
			talk(t, r, func(conn net.Conn) {
				b := make([]byte, 2*frame.Size+size) // A batch of two.
				if _, err := io.ReadFull(conn, b); err != nil {
					return
				}
				var h [2]frame.Header
				for i := range h {
					if h[i].Decode(b[i*frame.Size:]) != nil {
						return
					}
				}
				_, _ = conn.Write(encoded(frame.ReasonDraining.Answer(frame.Error, h[0].ID)))
				until(t, "the first answer is heard", func() bool {
					r.path.mu.Lock()
					defer r.path.mu.Unlock()
					for o := range r.path.Active() {
						return o.err != nil
					}
					return true
				})
				if c.second != 0 {
					_, _ = conn.Write(encoded(frame.Header{Type: c.second, ID: h[1].ID, Reason: frame.ReasonDraining}))
					_, _ = io.Copy(io.Discard, conn)
				}
			})
			require.Equal(t, c.want, r.run(t, r.write(make([]byte, size)))[0].Status)
		})
	}
}

// TestStopUnderWrites: a node that stops leaves no operation of its peers indeterminate, whatever it
// was at, and whatever they had sent.
func TestStopUnderWrites(t *testing.T) {
	const size, depth = 64 << 10, 64
	for round := range 10 {
		r := newPair(t, size*depth, func(c *Config) { single(c); c.ConnectionsPerPeer = 3; c.SliceBytes = 16 << 10 })
		buf := make([]byte, size*depth)
		ended := make(chan map[transport.Status]int)
		go func() {
			got := map[transport.Status]int{}
			out := make([]transport.Completion, depth)
			var free []int // Two writes of one place at a time are a race.
			for i := range depth {
				free = append(free, i)
			}
			for got[transport.Failed] == 0 || len(free) < depth {
				for ; len(free) > 0 && got[transport.Failed] == 0; free = free[1:] {
					i := free[0]
					_, _ = r.path.Submit([]transport.Op{{ID: uint64(i), Kind: transport.Write, Local: buf[i*size:][:size], Remote: r.id, Offset: uint64(i * size)}})
				}
				n, err := r.path.Reap(context.Background(), out)
				if err != nil {
					break
				}
				for _, c := range out[:n] {
					got[c.Status]++
					free = append(free, int(c.ID))
				}
			}
			ended <- got
		}()
		until(t, "writes are served", func() bool { return r.server.Stats().ServedWrites > uint64(17*round) })
		require.NoError(t, r.server.Stop(context.Background()))
		got := <-ended
		require.Zero(t, got[transport.Quarantined], "%v", got)
		require.Positive(t, got[transport.Failed])
	}
}
