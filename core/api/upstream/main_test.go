package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/core/internal/framed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient is for waits that end at once unless something is broken.
const patient = 30 * time.Second

// The functions of tester.
const (
	fnEcho   = iota + 1 // answers with the request
	fnGate              // answers once gate is open or its context has ended
	fnBlow              // answers with as many bytes as the number in the request says
	fnRefuse            // is refused
	fnFail              // fails
	fnPanic
	fnGuess // is asked by the versions in the first byte, and answers with the one that it is answered as
	fnWhole // as fnGuess, with an answer that every version can read
)

// tester is the handler of the tests.
type tester struct {
	gate    chan struct{}
	entered atomic.Int32 // calls of fnGate
	cut     atomic.Int32 // of them, those whose context ended
	mu      sync.Mutex
	calls   map[string]int // by the names that were observed
	conns   atomic.Int32
	// madeRoom counts the connections that were closed because there were too many.
	madeRoom atomic.Int32
}

// Answer implements Handler.
func (h *tester) Answer(ctx context.Context, p *Peer, function uint32, body, out []byte) ([]byte, error) {
	switch function {
	case fnEcho:
		return append(out, body...), nil
	case fnGate:
		h.entered.Add(1)
		select {
		case <-h.gate:
		case <-ctx.Done():
			h.cut.Add(1)
			return nil, ctx.Err()
		}
		return append(out, body...), nil
	case fnBlow:
		return append(out, make([]byte, binary.LittleEndian.Uint32(body))...), nil
	case fnRefuse:
		return nil, &Refused{Code: 300, Message: "x"}
	case fnFail:
		return out, errors.New("it went wrong")
	case fnPanic:
		panic("at once")
	case fnGuess:
		return append(out, byte(p.Narrow(calls.Versions(body[0]), calls.GetReplicaList))), nil
	case fnWhole:
		return append(out, byte(p.Narrow(calls.Versions(body[0]), calls.ExistKey))), nil
	}
	return nil, &Refused{Code: CodeUnsupported, Message: "there is no such function"}
}

// options are those of a server of h.
func (h *tester) options(o Options) Options {
	h.gate = make(chan struct{})
	h.calls = map[string]int{}
	o.Handler = h
	o.Name = func(function uint32) string {
		return map[uint32]string{fnEcho: "ExistKey", fnGate: "Gate", fnGuess: "Guess", fnPanic: "Panic"}[function]
	}
	o.Readers = func(function uint32, as calls.Version) calls.Versions {
		if function == fnGuess {
			return calls.GetReplicaList.Readers(as)
		}
		return calls.All
	}
	o.Observe = func(method string, _ time.Duration) { h.mu.Lock(); defer h.mu.Unlock(); h.calls[method]++ }
	return o
}

// serve runs a server of h, set up by set, until the test ends.
func serve(t testing.TB, h *tester, o Options, set ...func(*framed.Server)) (addr string, s *server) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s = newServer(h, o)
	for _, f := range set {
		f(s.Server)
	}
	serveOn(t, ln, h, s)
	return ln.Addr().String(), s
}

// server is one of upstream's protocol alone.
type server struct {
	*framed.Server
	protocol *Server
}

func newServer(h *tester, o Options) *server {
	s := &server{framed.NewServer(), NewServer(h.options(o))}
	s.Register(foreign.CoroRPC, s.protocol)
	s.ConnClosed = func(framed.ConnClosed) { h.madeRoom.Add(1) }
	s.Connections = func(_ foreign.Protocol, more int) { h.conns.Add(int32(more)) }
	return s
}

// serveOn serves a listener until the test ends.
func serveOn(t testing.TB, ln net.Listener, h *tester, s *server) {
	split := s.Split(ln)
	var serving sync.WaitGroup
	serving.Go(func() { // What is for gRPC.
		for {
			conn, err := split.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		assert.NoError(t, split.Close())
		s.Stop(ctx)
		serving.Wait()
		assert.Zero(t, h.conns.Load(), "connections that were not counted back")
	})
}

// client is one connection of a client.
type client struct {
	t testing.TB
	net.Conn
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	return dialOver(t, "tcp", addr)
}

func dialOver(t testing.TB, network, addr string) *client {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), network, addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patient)))
	return &client{t: t, Conn: conn}
}

// request is a whole request.
func request(seq, function uint32, body []byte, attached int) []byte {
	b := []byte{magic, 0, 0, 0}
	for _, n := range []uint32{seq, function, uint32(len(body)), uint32(attached)} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return append(append(b, body...), make([]byte, attached)...)
}

func (c *client) send(b []byte) {
	c.t.Helper()
	_, err := c.Write(b)
	require.NoError(c.t, err)
}

// answer reads an answer.
func (c *client) answer() (seq uint32, code byte, body []byte) {
	c.t.Helper()
	seq, code, body, err := readAnswer(c)
	require.NoError(c.t, err)
	return seq, code, body
}

func readAnswer(r io.Reader) (seq uint32, code byte, body []byte, err error) {
	head := make([]byte, answerHeader)
	if _, err = io.ReadFull(r, head); err != nil {
		return 0, 0, nil, err
	}
	if head[0] != magic || head[1] != 0 || head[3] != 0 || binary.LittleEndian.Uint32(head[12:]) != 0 {
		return 0, 0, nil, errFrame
	}
	body = make([]byte, binary.LittleEndian.Uint32(head[8:]))
	_, err = io.ReadFull(r, body)
	return binary.LittleEndian.Uint32(head[4:]), head[2], body, err
}

// call does one call, which has to succeed.
func (c *client) call(seq, function uint32, body []byte) []byte {
	c.t.Helper()
	c.send(request(seq, function, body, 0))
	got, code, answer := c.answer()
	require.Equal(c.t, seq, got)
	require.Zero(c.t, code, "%q", answer)
	return answer
}

// ended waits for the end of the connection.
func (c *client) ended() {
	c.t.Helper()
	rest, err := io.ReadAll(c)
	require.NotErrorIs(c.t, err, os.ErrDeadlineExceeded) // A reset is an end as well.
	require.Empty(c.t, rest)
}

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, patient, time.Millisecond, what)
}
