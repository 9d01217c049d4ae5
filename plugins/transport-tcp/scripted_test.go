package tcp

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// scripted is a peer that does what a test says.
type scripted struct {
	ln net.Listener
	wg sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func newScripted(t testing.TB) *scripted {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &scripted{ln: ln}
	t.Cleanup(func() {
		_ = ln.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

func (s *scripted) port() int { return s.ln.Addr().(*net.TCPAddr).Port }

// serve lets each do what the peer does on a connection, which is closed afterwards.
func (s *scripted) serve(each func(net.Conn)) {
	s.wg.Go(func() {
		for {
			c, err := s.ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			s.wg.Go(func() {
				defer func() { _ = c.Close() }()
				each(c)
			})
		}
	})
}

// accepted returns how many connections came so far.
func (s *scripted) accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}
