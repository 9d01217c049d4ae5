package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/ports"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/member"
)

// Observer is a master that counts its calls.
type Observer interface {
	store.Master
	ObserveRPC(method string, took time.Duration)
	ObserveForeign(protocol string)
}

// ServerModule serves a master. It is the last module of the role, so that a client that reaches
// the port finds a complete master.
func ServerModule() fx.Option {
	return fx.Module("api/rpc", fx.Provide(provideServer), fx.Invoke(func(*Server) {}))
}

func provideServer(lc fx.Lifecycle, cfg config.Config, m Observer, log *slog.Logger, fail ports.Failer) *Server {
	c := cfg.Master
	server := NewServer(m, ServerOptions{Logger: log, IdleTimeout: c.RPCConnTimeout, Observe: m.ObserveRPC, Foreign: m.ObserveForeign})
	start := func(ctx context.Context) error {
		ln, err := ports.Listen(ctx, "master", c.RPCAddress, c.RPCPort, "rpc_port")
		if err != nil {
			return err
		}
		if !c.RPCEnableTCPNoDelay {
			ln = delayed{ln}
		}
		go func() {
			if err := server.Serve(ln); err != nil {
				fail(fmt.Errorf("master: the RPC server on %s ended: %w", ln.Addr(), err))
			}
		}()
		log.Info("master is serving", "address", ln.Addr().String())
		return nil
	}
	lc.Append(fx.StartStopHook(start, server.Stop))
	return server
}

// delayed is a TCP listener whose connections may collect small messages (no TCP_NODELAY).
type delayed struct{ net.Listener }

// Accept waits for the next connection.
func (d delayed) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok && err == nil {
		_ = tcp.SetNoDelay(false) // A connection that has closed fails by itself.
	}
	return c, err
}

// reconnectDelay is the longest pause between attempts to connect to the master, so that a member
// finds a master soon after its start. The session decides how often it calls.
const reconnectDelay = 250 * time.Millisecond

// ClientModule provides the calls to the master of a member.
func ClientModule() fx.Option { return fx.Module("api/rpc", fx.Provide(provideDial)) }

func provideDial(cfg config.Config) member.Dial {
	return func() (member.Master, error) {
		c, err := Dial(cfg.Store.MasterServerAddress, Options{Timeout: cfg.Store.RPCTimeout, MaxRetryDelay: reconnectDelay})
		if err != nil {
			return nil, err
		}
		return c, nil
	}
}
