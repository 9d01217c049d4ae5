package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/store/local/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// accept takes connections until the listener closes.
func (s *Server) accept() {
	for {
		c, err := s.ln.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.deps.Log.Warn("local service: a connection was not accepted", "error", err)
			time.Sleep(50 * time.Millisecond) // Descriptors are exhausted; an immediate retry would not help.
			continue
		}
		s.admit(c)
	}
}

// admit begins the introduction of a connection. If too many connections are silent, it closes the
// one that has been silent longest, so that silent connections lock no client out.
func (s *Server) admit(c *net.UnixConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close() // The server ends.
		return
	}
	if len(s.fresh) >= s.cfg.MaxPending {
		_ = s.fresh[0].Close() // Its introduction ends.
		s.fresh = s.fresh[1:]
	}
	s.fresh = append(s.fresh, c)
	s.tasks.Go(func() { s.introduce(c) })
}

// known ends the introduction of a connection.
func (s *Server) known(c *net.UnixConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.fresh, c); i >= 0 {
		s.fresh = slices.Delete(s.fresh, i, i+1)
	}
}

func (s *Server) refuse(c net.Conn, err error) {
	s.deps.Log.Warn("local service: a connection is refused", "error", err)
	_ = c.Close() // An error would not matter.
}

// introduce reads the purpose of a connection and serves it.
func (s *Server) introduce(c *net.UnixConn) {
	kind, token, peer, err := s.hear(c)
	if err != nil {
		s.known(c)
		s.refuse(c, err)
		return
	}
	if kind == frame.Calls {
		s.mu.Lock()
		p := s.peers[token]
		s.mu.Unlock()
		s.known(c)
		if p == nil || p.peer != peer || !p.takeCalls(c) {
			s.refuse(c, errors.New("a connection for calls belongs to no attached process, or is its second"))
			return
		}
		if !s.calls.push(&owned{c, &attached{process: p}}) {
			_ = c.Close() // The server ends.
		}
		return
	}
	p, err := s.greet(frame.Conn{UnixConn: c}, peer)
	s.known(c)
	if err != nil {
		s.refuse(c, err)
		return
	}
	p.live()
}

func (s *Server) hear(c *net.UnixConn) (frame.Kind, frame.Token, frame.Peer, error) {
	peer, err := frame.PeerOf(c)
	if err != nil {
		return 0, frame.Token{}, peer, err
	}
	if !s.cfg.Any && !peer.Own() {
		return 0, frame.Token{}, peer, errs.New(errs.IllegalClient, "local service", "user %d (process %d) may not attach; this user and root may", peer.UID, peer.PID)
	}
	if err := c.SetDeadline(time.Now().Add(s.cfg.HelloTimeout)); err != nil {
		return 0, frame.Token{}, peer, err
	}
	kind, token, err := frame.ReadPreamble(c)
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	return kind, token, peer, err
}

// greet answers the first message of a lifeline and makes the process known.
func (s *Server) greet(c frame.Conn, peer frame.Peer) (*process, error) {
	var req localv1.AttachRequest
	fd, err := c.Recv(time.Now().Add(s.cfg.HelloTimeout), &req)
	closeFD(fd)
	if err != nil {
		return nil, err
	}
	hello := req.GetHello()
	if hello == nil || fd >= 0 {
		return nil, errs.New(errs.InvalidParams, "local service", "the first message is no greeting")
	}
	p := newProcess(s, c, peer)
	s.mu.Lock()
	switch {
	case s.closed:
		err = net.ErrClosed
	case len(s.peers) >= s.cfg.MaxPeers:
		err = errs.New(errs.UnavailableInCurrentStatus, "local service", "%d processes are attached, the bound", s.cfg.MaxPeers)
	default:
		s.peers[p.token] = p
	}
	s.mu.Unlock()
	if err != nil {
		_ = c.Send(time.Now().Add(time.Second), &localv1.AttachResponse{Error: wire.ToProto(err)}, -1) // The peer receives it if it still reads.
		return nil, err
	}
	w := &localv1.Welcome{Version: s.deps.Version, Token: p.token[:], Hostname: s.deps.Client.Hostname()}
	lend := -1
	if s.lend != nil {
		w.LendBytes, lend = uint64(len(s.lend.Bytes())), s.lend.FD()
	}
	if err := c.Send(time.Now().Add(s.cfg.HelloTimeout), &localv1.AttachResponse{Welcome: w}, lend); err != nil {
		s.forget(p)
		return nil, err
	}
	p.log.Info("a process attached", "version", hello.GetVersion())
	return p, nil
}

func (s *Server) forget(p *process) {
	s.mu.Lock()
	delete(s.peers, p.token)
	s.mu.Unlock()
}

// lost returns the reason why a lifeline ended, for the log.
func lost(err error) string {
	switch {
	case errors.Is(err, io.EOF):
		return "it left or died"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "it has been silent for too long"
	case errors.Is(err, net.ErrClosed), errors.Is(err, context.Canceled):
		return "this service ends"
	default:
		return err.Error()
	}
}
