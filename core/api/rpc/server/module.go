package server

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
)

// Observer is a master that counts its calls.
type Observer interface {
	store.Master
	ObserveRPC(method string, took time.Duration)
	ObserveForeign(protocol string)
	// ObserveRequestMemory counts the memory of large requests, ObserveRequestWait those that wait
	// for it, ObserveConnClosed the connections that were closed because there were too many.
	ObserveRequestMemory(bytes int64)
	ObserveRequestWait()
	ObserveConnClosed(why string)
	// Quiesce refuses further calls and has the ledgers learn what was answered.
	Quiesce(ctx context.Context)
}

// Module serves a master. It is the last module of the role, so that a client that reaches
// the port finds a complete master.
func Module() fx.Option {
	return fx.Module("api/rpc/server", fx.Provide(provideServer), fx.Invoke(func(*Server) {}))
}

func provideServer(lc fx.Lifecycle, cfg config.Config, m Observer, log *slog.Logger, fail ports.Failer) *Server {
	c := cfg.Master
	server := New(m, Options{
		Logger: log, IdleTimeout: c.RPCConnTimeout, Observe: m.ObserveRPC, Foreign: m.ObserveForeign,
		MemoryBudget: memoryBudget(uint64(c.RPCMemoryBudget)), Memory: m.ObserveRequestMemory, MemoryWait: m.ObserveRequestWait,
		MaxConnections: maxConnections(c.RPCMaxConnections, log), ConnClosed: m.ObserveConnClosed,
	})
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
	lc.Append(fx.StartStopHook(start, func(ctx context.Context) {
		m.Quiesce(ctx)
		server.Stop(ctx)
	}))
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
