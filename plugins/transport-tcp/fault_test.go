package tcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// limit bounds each wait of a test; reaching it is a failure.
const limit = 30 * time.Second

// run brings operations to their end.
func (r *pair) run(t testing.TB, ops ...transport.Op) []transport.Completion {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	n, err := r.path.Submit(ops)
	require.NoError(t, err)
	require.Equal(t, len(ops), n)
	out := make([]transport.Completion, 0, n)
	for len(out) < n {
		got, err := r.path.Reap(ctx, out[len(out):n])
		require.NoError(t, err)
		out = out[:len(out)+got]
	}
	return out
}

func (r *pair) read(buf []byte) transport.Op {
	return transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: r.id}
}

func (r *pair) write(buf []byte) transport.Op {
	return transport.Op{ID: 2, Kind: transport.Write, Local: buf, Remote: r.id}
}

func (r *pair) ok(t testing.TB, ops ...transport.Op) {
	for _, c := range r.run(t, ops...) {
		require.Equal(t, transport.OK, c.Status, "%v", c.Err)
	}
}

// until waits for a condition that another goroutine brings about.
func until(t testing.TB, what string, cond func() bool) {
	for end := time.Now().Add(limit); !cond(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// single has one connection, and no limit that a busy machine meets. What a test is to run
// into it makes short itself.
func single(c *Config) {
	c.StallTimeout, c.OpTimeout, c.DialTimeout = plugin.Duration(limit), plugin.Duration(limit), plugin.Duration(limit)
	c.ConnectionsPerPeer, c.SliceBytes = 1, 1<<20
}

// works waits until a Read succeeds.
func (r *pair) works(t testing.TB, buf []byte) {
	until(t, "it works", func() bool { return r.run(t, r.read(buf))[0].Status == transport.OK })
}

// expireNow makes the path take the deadline of an operation for passed.
func (r *pair) expireNow() {
	r.path.mu.Lock()
	defer r.path.mu.Unlock()
	for o := range r.path.Active() {
		r.path.expire(slices.Values([]*op{o}))
		return
	}
}

// reap waits for one completion.
func (r *pair) reap(t testing.TB) transport.Completion {
	out := make([]transport.Completion, 1)
	_, err := r.path.Reap(context.Background(), out)
	require.NoError(t, err)
	return out[0]
}

func throughProxy(t *testing.T, size int, change ...func(*Config)) (*pair, *faulty) {
	r := newPair(t, size, append([]func(*Config){single}, change...)...)
	f, ep := proxy(t, r.server.Endpoint())
	r.dial(t, ep)
	return r, f
}

// TestCutConnection: operations in flight fail at once, and the path connects again.
func TestCutConnection(t *testing.T) {
	r, f := throughProxy(t, 1<<20)
	buf := make([]byte, 1<<20)
	for i, up := range []bool{false, true} {
		var once atomic.Bool
		f.set(func(dir bool, at int64, _ []byte) verdict {
			if dir == up && at > 100_000 && once.CompareAndSwap(false, true) {
				return cut
			}
			return pass
		})
		op := r.read(buf)
		want := transport.Failed
		if up {
			op, want = r.write(buf), transport.Quarantined // The peer may hold more of it than it stored.
		}
		c := r.run(t, op)[0]
		require.Equal(t, want, c.Status)
		require.Equal(t, errs.ClassTransientPath, c.Class(), "%v", c.Err)
		// Until then the server may touch its memory for the operation that the client gave up.
		until(t, "the server drops the cut connection", func() bool { return r.server.Stats().ConnectionsIn == 0 })
		r.ok(t, r.read(buf))
		r.ok(t, r.write(buf))
		require.Equal(t, i+2, f.accepted(), "one new connection for each cut")
	}
	s := r.client.Stats()
	require.EqualValues(t, 2, s.ConnectionsCut)
	require.EqualValues(t, 1, s.OpsFailed)
	require.EqualValues(t, 1, s.OpsQuarantined)
}

// TestCorruptHeader: a damaged header ends the connection, typed, whichever side sees it.
func TestCorruptHeader(t *testing.T) {
	r, f := throughProxy(t, 4096)
	buf := make([]byte, 4096)
	for _, up := range []bool{true, false} {
		var once atomic.Bool
		f.set(func(dir bool, at int64, b []byte) verdict {
			if dir == up && at == frame.Size && once.CompareAndSwap(false, true) {
				b[20] ^= 4
			}
			return pass
		})
		f.cutAll()
		until(t, "connection gone", func() bool { return r.client.Stats().ConnectionsOut == 0 })
		c := r.run(t, r.read(buf))[0]
		require.Equal(t, transport.Failed, c.Status)
		require.Equal(t, errs.ClassTransientPath, c.Class(), "%v", c.Err)
		r.ok(t, r.read(buf))
	}
	require.EqualValues(t, 1, r.server.Stats().Refused["bad-frame"])
}

// TestCorruptPayload: with checksums on, a damaged payload fails its operation alone.
func TestCorruptPayload(t *testing.T) {
	r, f := throughProxy(t, 8192, func(c *Config) { c.Checksum = true })
	buf := make([]byte, 8192)
	r.ok(t, r.read(buf))
	for _, up := range []bool{false, true} {
		var once atomic.Bool
		f.set(func(dir bool, _ int64, b []byte) verdict {
			if dir == up && len(b) > 1000 && once.CompareAndSwap(false, true) {
				b[len(b)-1] ^= 1
			}
			return pass
		})
		op := r.read(buf)
		if up {
			op = r.write(buf)
		}
		c := r.run(t, op)[0]
		require.Equal(t, transport.Failed, c.Status)
		require.True(t, errs.Is(c.Err, errs.ChecksumMismatch), "%v", c.Err)
		require.Equal(t, errs.ClassTransientPath, c.Class())
		r.ok(t, r.read(buf))
		r.ok(t, r.write(buf))
	}
	require.Equal(t, 1, f.accepted(), "the connection lives on")
}

// TestSilence: a peer that goes quiet with an answer outstanding loses the connection
// after stall_timeout, in the middle of a payload as well as before it.
func TestSilence(t *testing.T) {
	for name, from := range map[string]int64{"before the answer": frame.Size, "in the payload": 200_000} {
		t.Run(name, func(t *testing.T) {
			r, f := throughProxy(t, 1<<20, func(c *Config) { c.StallTimeout = ms(60) })
			f.set(func(up bool, at int64, _ []byte) verdict {
				if !up && at >= from {
					return drop
				}
				return pass
			})
			buf := make([]byte, 1<<20)
			c := r.run(t, r.read(buf))[0]
			require.Equal(t, transport.Failed, c.Status)
			require.ErrorIs(t, c.Err, errQuiet)
			f.set(nil)
			r.works(t, buf) // Not always at once: the machine may be quiet for as long.
		})
	}
}

// TestDeadlineInPayload: an operation that ends while its payload arrives is drained and
// harms no other; its buffer is not touched after the completion.
func TestDeadlineInPayload(t *testing.T) {
	r, f := throughProxy(t, 4<<20)
	fillWith(r.mem, 0x77)
	gate := make(chan struct{})
	arrived := make(chan struct{})
	var once atomic.Bool
	f.set(func(up bool, at int64, _ []byte) verdict {
		if !up && at > 100_000 && once.CompareAndSwap(false, true) {
			close(arrived)
			<-gate
		}
		return pass
	})
	buf := make([]byte, 1<<20)
	r.submit(t, patient(r.read(buf)))
	<-arrived
	r.expireNow()
	c := r.reap(t)
	require.Equal(t, transport.Failed, c.Status)
	require.True(t, errs.Is(c.Err, errs.RPCTimeout))
	require.ErrorIs(t, c.Err, context.DeadlineExceeded)
	fillWith(buf, 0x11)
	close(gate)
	other := make([]byte, 4096)
	r.ok(t, r.read(other))
	require.Equal(t, r.mem[:4096], other)
	require.Equal(t, 1<<20, bytes.Count(buf, []byte{0x11}), "nothing touches the buffer of a completed operation")
	require.Equal(t, 1, f.accepted(), "the connection lives on")
	require.Positive(t, r.client.Stats().DiscardedBytes)
}

func fillWith(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

// hole is an address where nothing listens. It is taken, so that nothing else can; listen
// makes a listener of it.
func hole(t testing.TB) (addr string, listen func() net.Listener) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "hole")
	t.Cleanup(func() { _ = f.Close() })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	here, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	return fmt.Sprintf("127.0.0.1:%d", here.(*syscall.SockaddrInet4).Port), func() net.Listener {
		require.NoError(t, syscall.Listen(fd, 16))
		ln, err := net.FileListener(f)
		require.NoError(t, err)
		return ln
	}
}

// at is the live endpoint under other addresses.
func at(t testing.TB, live transport.Endpoint, addrs ...string) transport.Endpoint {
	e, err := frame.DecodeEndpoint(live.Blob)
	require.NoError(t, err)
	e.Addrs = addrs
	return transport.Endpoint{Blob: e.Encode(), Incarnation: e.Incarnation}
}

// patient is an operation that its deadline does not end within a test.
func patient(op transport.Op) transport.Op {
	op.Deadline = time.Now().Add(time.Hour)
	return op
}

// TestRefusedFailsAtOnce: operations do not wait for a peer that is not there, those
// submitted before the next attempt is due cost none, and the path works once the peer is
// back.
func TestRefusedFailsAtOnce(t *testing.T) {
	r := newPair(t, 4096, single)
	e, err := frame.DecodeEndpoint(r.server.Endpoint().Blob)
	require.NoError(t, err)
	addr, listen := hole(t)
	other, _ := hole(t)
	r.dial(t, at(t, r.server.Endpoint(), addr, other))
	buf := make([]byte, 4096)
	for _, c := range r.run(t, patient(r.read(buf)), patient(r.write(buf))) {
		require.Equal(t, transport.Failed, c.Status)
		require.Equal(t, errs.ClassTransientPeer, c.Class(), "%v", c.Err)
		require.ErrorIs(t, c.Err, syscall.ECONNREFUSED)
	}
	require.EqualValues(t, 2, r.client.Stats().DialsFailed, "one attempt, two addresses")
	r.path.mu.Lock()
	r.path.retry.NotBefore = time.Now().Add(time.Hour)
	r.path.mu.Unlock()
	require.ErrorIs(t, r.run(t, patient(r.read(buf)))[0].Err, syscall.ECONNREFUSED)
	require.EqualValues(t, 2, r.client.Stats().DialsFailed)

	ln := listen()
	f := &faulty{ln: ln, target: e.Addrs[0], conns: map[net.Conn]bool{}}
	f.wg.Add(1)
	go f.accept()
	defer func() { _ = ln.Close(); f.cutAll(); f.wg.Wait() }()
	r.path.mu.Lock()
	r.path.retry.NotBefore = time.Now()
	r.path.mu.Unlock()
	r.ok(t, patient(r.read(buf)))
}

// TestKilledPeer: operations in flight when the peer dies fail, and so do later ones,
// long before its deadline.
func TestKilledPeer(t *testing.T) {
	r := newPair(t, 4096, single)
	buf := make([]byte, 4096)
	r.ok(t, r.read(buf))
	require.NoError(t, r.server.Stop(context.Background()))
	for range 3 {
		c := r.run(t, patient(r.read(buf)))[0]
		require.Equal(t, transport.Failed, c.Status)
		require.Contains(t, []errs.Class{errs.ClassTransientPeer, errs.ClassTransientPath}, c.Class(), "%v", c.Err)
	}
}

// TestMuteListener: a peer that takes connections and says nothing is given up after
// dial_timeout, not after the operations' own time.
func TestMuteListener(t *testing.T) {
	r := newPair(t, 4096, single, func(c *Config) { c.DialTimeout = plugin.Duration(50 * time.Millisecond) })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = ln.Close() }()
	r.dial(t, at(t, r.server.Endpoint(), ln.Addr().String(), ln.Addr().String()))
	c := r.run(t, patient(r.read(make([]byte, 10))))[0]
	require.Equal(t, transport.Failed, c.Status)
	require.Equal(t, errs.ClassTransientPeer, c.Class(), "%v", c.Err)
	// Whichever of the two clocks comes first: the attempt's or the socket's.
	require.True(t, errors.Is(c.Err, context.DeadlineExceeded) || errors.Is(c.Err, os.ErrDeadlineExceeded), "%v", c.Err)
	require.EqualValues(t, 2, r.client.Stats().DialsFailed, "one attempt, two addresses")
}

// TestDialFailures says for which failures to connect operations still wait.
func TestDialFailures(t *testing.T) {
	busy := &errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPeer, Err: errors.New("busy")}
	for name, c := range map[string]struct {
		errs  []error
		ago   time.Duration // since the first of the attempts began
		up    bool          // another connection lives
		waits bool
	}{
		"refused":                         {errs: []error{syscall.ECONNREFUSED}},
		"refused everywhere":              {errs: []error{syscall.ECONNREFUSED, syscall.ECONNREFUSED}},
		"restarted":                       {errs: []error{syscall.ETIMEDOUT, errGone}},
		"stopping":                        {errs: []error{errLeaving}},
		"refused, another connection up":  {errs: []error{syscall.ECONNREFUSED}, up: true, waits: true},
		"refused at one":                  {errs: []error{syscall.ECONNREFUSED, syscall.EHOSTUNREACH}, waits: true},
		"no route":                        {errs: []error{syscall.EHOSTUNREACH}, waits: true},
		"no route for too long":           {errs: []error{syscall.EHOSTUNREACH}, ago: time.Minute},
		"too long, another connection up": {errs: []error{syscall.EHOSTUNREACH}, ago: time.Minute, up: true, waits: true},
		"busy":                            {errs: []error{busy}, ago: time.Minute, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPair(t, 4096, single)
			r.dial(t, at(t, r.server.Endpoint(), "127.0.0.1:1"))
			f := &transportkit.DialFailure{Absent: true}
			for _, err := range c.errs {
				noteDial(f, "x", err)
			}
			p := r.path
			p.mu.Lock()
			if c.up {
				p.conns = append(p.conns, &connection{p: p, up: true})
			}
			p.dialling = 1 // No goroutine is to dial.
			p.mu.Unlock()
			n, err := p.Submit([]transport.Op{patient(r.read(make([]byte, 1)))})
			require.NoError(t, err)
			require.Equal(t, 1, n)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.noteDialFailure(f, time.Now().Add(-c.ago))
			require.Equal(t, c.waits, p.Len() == 1)
			p.conns = nil
		})
	}
}

// TestDeadlineWhileConnecting: the deadline holds while the path tries to connect, and the
// error names why it could not.
func TestDeadlineWhileConnecting(t *testing.T) {
	r := newPair(t, 4096, func(c *Config) { c.MaxConnections = 1 })
	other := r.greeted(t)
	defer func() { _ = other.Close() }()
	r.submit(t, patient(r.read(make([]byte, 10))))
	until(t, "the path was turned away", func() bool {
		r.path.mu.Lock()
		defer r.path.mu.Unlock()
		return r.path.retry.Last != nil
	})
	r.expireNow()
	c := r.reap(t)
	require.Equal(t, transport.Failed, c.Status)
	require.True(t, errs.Is(c.Err, errs.RPCTimeout), "%v", c.Err)
	require.ErrorContains(t, c.Err, "as many connections as it allows")
}
