package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/mooncake-go/mooncake/core/api/guard"
	upstreamcalls "github.com/mooncake-go/mooncake/core/api/upstream/service"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/ports"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// Observer is a master that counts its calls.
type Observer interface {
	store.Master
	ObserveRPC(method string, took time.Duration)
	ObserveForeign(protocol string)
	// ObserveUpstreamConnections counts the connections of upstream's clients, by how many they become more.
	ObserveUpstreamConnections(more int)
	// ObserveRequestMemory counts the memory of large requests, ObserveRequestWait those that wait
	// for it, ObserveConnClosed the connections that were closed because there were too many.
	ObserveRequestMemory(bytes int64)
	ObserveRequestWait()
	ObserveConnClosed(why string)
	// Quiesce refuses further calls and has the ledgers learn what was answered.
	Quiesce(ctx context.Context)
}

// Port is a port at which a master takes calls. It can be opened again after it was closed; Open and Close are called
// one at a time.
type Port struct {
	cfg     config.Master
	doors   *doors.Doors
	door    config.Door
	number  int
	setting string
	serving string // the line of the log
	// upstream says that clients of upstream's may call here.
	upstream bool
	master   Observer
	log      *slog.Logger
	fail     ports.Failer
	server   *Server // nil while it is closed
	address  net.Addr
}

// NewPort returns the RPC port of a master, closed. fail gets the error of a server that ended by itself.
func NewPort(cfg config.Master, d *doors.Doors, m Observer, log *slog.Logger, fail ports.Failer) *Port {
	return &Port{cfg: cfg, doors: d, door: config.DoorRPC, number: cfg.RPCPort, setting: "rpc_port", serving: "master is serving", upstream: true, master: m, log: log, fail: fail}
}

// NewFollowPort returns the port at which nodes tell a master that does not lead what their ledgers have, closed.
func NewFollowPort(cfg config.Master, d *doors.Doors, m Observer, log *slog.Logger, fail ports.Failer) *Port {
	return &Port{cfg: cfg, doors: d, door: config.DoorFollow, number: cfg.HAFollowPort, setting: "ha_follow_port", serving: "this master follows the leader", master: m, log: log, fail: fail}
}

// Number returns the number of an open port.
func (p *Port) Number() int {
	if a, ok := p.address.(*net.TCPAddr); ok {
		return a.Port
	}
	return p.number
}

// Open begins to serve.
func (p *Port) Open(ctx context.Context) error {
	c, m := p.cfg, p.master
	ln, err := ports.Listen(ctx, p.doors, p.door, "master", c.RPCAddress, p.number, p.setting)
	if err != nil {
		return err
	}
	o := Options{
		Logger: p.log, IdleTimeout: c.RPCConnTimeout, Observe: m.ObserveRPC, Foreign: m.ObserveForeign,
		MemoryBudget: memoryBudget(uint64(c.RPCMemoryBudget)), Memory: m.ObserveRequestMemory, MemoryWait: m.ObserveRequestWait,
		MaxConnections: maxConnections(c.RPCMaxConnections, p.log), ConnClosed: m.ObserveConnClosed, UpstreamConnections: m.ObserveUpstreamConnections,
		Access: p.doors.Access(), OneTenant: !c.EnableMultiTenants,
	}
	if p.upstream && c.UpstreamClients {
		o.Upstream = upstreamcalls.New(guard.New(m, guard.Options{Control: o.Access, OneTenant: o.OneTenant, Adopt: true}), p.log)
	}
	server := New(m, o)
	if !c.RPCEnableTCPNoDelay {
		ln = delayed{ln}
	}
	p.server, p.address = server, ln.Addr()
	go func() {
		if err := server.Serve(ln); err != nil {
			p.fail(fmt.Errorf("master: the RPC server on %s ended: %w", ln.Addr(), err))
		}
	}()
	p.log.Info(p.serving, "address", ln.Addr().String())
	return nil
}

// IsOpen reports whether the port is open.
func (p *Port) IsOpen() bool { return p.server != nil }

// Close ends the calls and the connections. Repeatable.
func (p *Port) Close(ctx context.Context) {
	if p.server != nil {
		p.server.Stop(ctx)
		p.server = nil
	}
}

// delayed is a TCP listener whose connections may collect small messages (no TCP_NODELAY).
type delayed struct{ net.Listener }

// Accept waits for the next connection.
func (d delayed) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if tcp, ok := security.Below(c).(*net.TCPConn); ok && err == nil {
		_ = tcp.SetNoDelay(false) // A connection that has closed fails by itself.
	}
	return c, err
}
