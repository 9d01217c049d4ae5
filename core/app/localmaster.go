package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// LocalMaster is a master in this process, for benchmarks: it serves on a free port of the
// loopback address and has no admin port.
type LocalMaster struct {
	// Service is the master itself, Client reaches it over the network.
	Service *master.Service
	Client  *client.Client

	role    *masterRole
	server  *server.Server
	address string
}

// StartLocalMaster starts one. Close it.
func StartLocalMaster(ctx context.Context, cfg config.Config, builtins []plugin.Factory, log *slog.Logger) (*LocalMaster, error) {
	return StartLocalMasterAt(ctx, "127.0.0.1:0", cfg, builtins, log)
}

// StartLocalMasterAt is StartLocalMaster on an address, host:port.
func StartLocalMasterAt(ctx context.Context, address string, cfg config.Config, builtins []plugin.Factory, log *slog.Logger) (*LocalMaster, error) {
	role, err := newMaster(cfg, builtins, log)
	if err != nil {
		return nil, err
	}
	m := &LocalMaster{Service: role.service, role: role}
	if err := m.start(ctx, address, log); err != nil {
		return nil, errors.Join(err, m.Close(context.WithoutCancel(ctx)))
	}
	return m, nil
}

func (m *LocalMaster) start(ctx context.Context, address string, log *slog.Logger) error {
	if err := m.role.evict.Start(ctx, newHost(m.role.evictID, log)); err != nil {
		return err
	}
	if err := m.role.alloc.Start(ctx, newHost(m.role.allocID, log)); err != nil {
		return err
	}
	if err := m.Service.Start(ctx); err != nil {
		return err
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	m.address = ln.Addr().String()
	m.server = server.New(m.Service, server.Options{Logger: log})
	go func() { _ = m.server.Serve(ln) }() // It ends with Close, and its clients see it.
	m.Client, err = client.Dial(ln.Addr().String(), client.Options{})
	return err
}

// Close ends it, for 10 s at most.
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
	return errors.Join(err, m.Service.Stop(ctx), m.role.alloc.Stop(ctx), m.role.evict.Stop(ctx), m.role.catalog.Close(ctx))
}

// Address is where it serves, host:port.
func (m *LocalMaster) Address() string { return m.address }
