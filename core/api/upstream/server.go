package upstream

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"time"

	"google.golang.org/grpc/status"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/internal/framed"
)

// Server is the protocol of upstream's clients, for foreign.CoroRPC of a framed.Server. It implements
// framed.Protocol. Safe for concurrent use.
type Server struct {
	o        Options
	refusals *refusals
	peers    *peers
}

var _ framed.Protocol = (*Server)(nil)

// NewServer returns a server.
func NewServer(o Options) *Server {
	o = o.withDefaults()
	return &Server{o: o, refusals: newRefusals(o.Logger, o.called), peers: newPeers()}
}

// Limits implements framed.Protocol.
func (s *Server) Limits() framed.Limits { return s.o.Limits }

// Shape implements framed.Protocol.
func (s *Server) Shape() framed.Shape { return framed.Shape{Header: requestHeader, Buffer: small} }

// Parse implements framed.Protocol.
func (s *Server) Parse(b []byte, limit int) (framed.Frame, error) { return parseHeader(b, limit) }

// Open implements framed.Protocol.
func (s *Server) Open(remote net.Addr) framed.Client {
	addr, _ := netip.ParseAddrPort(remote.String()) // The zero value where there is none.
	return &caller{Server: s, peer: s.peers.enter(addr), remote: remote}
}

// caller is the client at the other end of a connection. It implements framed.Client.
type caller struct {
	*Server
	peer   *Peer
	remote net.Addr
}

// Greet implements framed.Client: there is no greeting.
func (c *caller) Greet(framed.Wire) (known bool, err error) { return false, nil }

// Asked implements framed.Client.
func (c *caller) Asked() { c.peer.asked() }

// Bye implements framed.Client: there is none.
func (c *caller) Bye() []byte { return nil }

// Last returns the answer to a request that is too large.
func (c *caller) Last(err error) []byte {
	large := (*largeError)(nil)
	if !errors.As(err, &large) {
		return nil
	}
	c.refusals.tooLarge(c.remote, large.function, large)
	return tooLarge(large.seq, large.Error())
}

// Left implements framed.Client.
func (c *caller) Left(byClient bool) { c.peer.left(byClient, time.Now()) }

// Refuse implements framed.Client.
func (c *caller) Refuse(j *framed.Call, why error) {
	c.refuse(j, &Refused{Code: CodeBusy, Message: status.Convert(why).Message()})
}

func (c *caller) refuse(j *framed.Call, why *Refused) {
	c.refusals.tell(c.remote, j.Function, why)
	j.Out = refusal(j.Out, j.Number, why)
}

// Answer implements framed.Client.
func (c *caller) Answer(j *framed.Call) {
	refused := c.answer(j)
	now := time.Now()
	if name := c.o.Name(j.Function); name != "" {
		c.o.Observe(method(name), now.Sub(j.Began))
	}
	if refused != nil {
		c.refuse(j, refused)
	} else if j.Alone() {
		c.peer.answered(func(as calls.Version) calls.Versions { return c.o.Readers(j.Function, as) }, now)
	}
}

// answer makes the frame of the answer, or says why there is none.
func (c *caller) answer(j *framed.Call) (refused *Refused) {
	j.Out = append(j.Out[:0], blank[:]...)
	defer func() {
		if p := recover(); p != nil {
			c.o.Logger.ErrorContext(j.Context(), "a call of an upstream client panicked; it is answered with an error, the master goes on",
				slog.String("function", c.o.called(j.Function)), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			refused = &Refused{Code: CodeInternal, Message: c.o.called(j.Function) + " failed on a fault of the master's own; its log says more"}
		}
	}()
	if name := c.o.Name(j.Function); name != "" {
		if err := c.o.Access.Check(j.Context(), callOf(name)); err != nil {
			return &Refused{Code: CodeForbidden, Message: err.Error()}
		}
	}
	out, err := c.o.Handler.Answer(j.Context(), c.peer, j.Function, j.In, j.Out)
	if err != nil {
		return refusedBy(c.o.called(j.Function), err)
	}
	if size := len(out) - answerHeader; size > c.o.Frame {
		return &Refused{Code: CodeTooLarge, Message: fmt.Sprintf("the answer to %s has %d bytes, at most %d are allowed: ask for fewer keys at once",
			c.o.called(j.Function), size, c.o.Frame)}
	}
	j.Out = out
	seal(out, j.Number, answerOK)
	return nil
}

// refusedBy returns the refusal for the error of a Handler.
func refusedBy(name string, err error) *Refused {
	var refused *Refused
	if errors.As(err, &refused) {
		return refused
	}
	return &Refused{Code: CodeInternal, Message: name + " failed: " + err.Error()}
}
