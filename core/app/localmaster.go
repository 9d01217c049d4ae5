package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"time"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/ports"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// LocalMaster is a master in this process, for benchmarks and tests. It serves on a free port of the
// loopback address, as the section security says, and has no admin port.
type LocalMaster struct {
	// Service is the master itself; Client reaches it over the network, with the certificate of the master.
	Service *master.Service
	Client  *client.Client

	hooks   *hooks
	server  *server.Server
	address string
}

// StartLocalMaster starts a master. The caller closes it.
func StartLocalMaster(ctx context.Context, cfg config.Config, builtins []plugin.Factory, log *slog.Logger) (*LocalMaster, error) {
	return StartLocalMasterAt(ctx, "127.0.0.1:0", cfg, builtins, log)
}

// StartLocalMasterAt is StartLocalMaster on an address, host:port.
func StartLocalMasterAt(ctx context.Context, address string, cfg config.Config, builtins []plugin.Factory, log *slog.Logger) (*LocalMaster, error) {
	m := &LocalMaster{}
	var d *doors.Doors
	var err error
	m.hooks, err = program(ctx, cfg, builtins, "", log, fx.Supply((*memory.Store)(nil)), masterModules(), fx.Populate(&m.Service, &d))
	if err != nil {
		return nil, err
	}
	if err := m.serve(ctx, address, d, log); err != nil {
		return nil, errors.Join(err, m.Close(context.WithoutCancel(ctx)))
	}
	return m, nil
}

func (m *LocalMaster) serve(ctx context.Context, address string, d *doors.Doors, log *slog.Logger) error {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	ln, err := ports.Listen(ctx, d, config.DoorRPC, "master", host, port, "rpc_port")
	if err != nil {
		return err
	}
	m.address = ln.Addr().String()
	m.server = server.New(m.Service, server.Options{Logger: log, Access: d.Access()})
	go func() { _ = m.server.Serve(ln) }() // Close ends it; its clients notice an earlier end.
	m.Client, err = client.Dial(m.address, client.Options{Doors: d})
	return err
}

// Close ends the master, within 10 s.
func (m *LocalMaster) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var err error
	if m.Client != nil {
		err = m.Client.Close()
	}
	if m.server != nil {
		m.server.Stop(ctx)
	}
	return errors.Join(err, m.hooks.stop(ctx))
}

// Address is where the master serves, host:port.
func (m *LocalMaster) Address() string { return m.address }
