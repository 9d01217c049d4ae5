// Package ports binds the ports of a process and reads the addresses that settings give for them.
package ports

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"syscall"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/httpd"
	"github.com/mooncake-go/mooncake/core/internal/profiling"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Failer receives the error of a server that ended by itself. The role then shuts down.
type Failer func(error)

// Listen binds a TCP port for a door, which d protects. what names the server and flag the setting of its
// port, for the error.
func Listen(ctx context.Context, d *doors.Doors, door config.Door, what, host string, port int, flag string) (net.Listener, error) {
	ln, err := Probe(ctx, what, host, port, flag)
	if err != nil {
		return nil, err
	}
	guarded, err := d.Guard(ln, door)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", what, err), ln.Close())
	}
	return guarded, nil
}

// Probe binds a TCP port that is closed again without a connection being taken.
func Probe(ctx context.Context, what, host string, port int, flag string) (net.Listener, error) {
	addr := net.JoinHostPort(Plain(host), strconv.Itoa(port))
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err == nil {
		return ln, nil
	}
	err = fmt.Errorf("%s: cannot listen on %s: %w", what, addr, err)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, errs.WithHint(err, "another process has the port, maybe another mooncake; 'ss -ltnp sport = :%d' shows which; choose another port with --%s", port, flag)
	case errors.Is(err, syscall.EACCES):
		return nil, errs.WithHint(err, "ports below 1024 need privileges; choose another port with --%s", flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, errs.WithHint(err, "this machine does not have the address %s; 'ip -brief addr' lists those it has", host)
	case errors.Is(err, syscall.EAFNOSUPPORT):
		return nil, errs.WithHint(err, "this machine has no IPv6; 0.0.0.0 stands for all of its IPv4 addresses")
	}
	return nil, err
}

// HTTP is an HTTP port of a role. The port does not exist if Handler is nil.
type HTTP struct {
	Handler http.Handler
	// Doors protects the port, which is Door.
	Doors *doors.Doors
	Door  config.Door
	// What names the port in logs and errors; Flag is the setting of Port.
	What, Host, Flag string
	Port             int
	// Changes is that of httpd.Options.
	Changes func(*http.Request) bool
	// Pprof is debug.pprof: the port serves profiles if it is "http".
	Pprof string
	// Optional is for a process that belongs to another program: Start succeeds, with a warning, if
	// the port cannot be bound, and the port serves no profiles.
	Optional bool
	Log      *slog.Logger

	server   *httpd.Server
	profiles *profiling.Handler
	at       net.Addr
}

// Start binds the port and serves on it.
func (p *HTTP) Start(ctx context.Context) error {
	if p.Handler == nil {
		return nil
	}
	ln, err := Listen(ctx, p.Doors, p.Door, p.What, p.Host, p.Port, p.Flag)
	switch {
	case err != nil && p.Optional:
		p.Log.Warn("health and metrics are not served", "error", err)
		return nil
	case err != nil:
		return err
	}
	p.at = ln.Addr()
	h := p.Handler
	if p.Pprof == config.PprofHTTP && !p.Optional {
		p.profiles = profiling.New()
		h = p.Doors.Access().Over(access.Find(access.Profiles, "GET "+profiling.Root), profiling.Root, p.profiles.Over(h))
	}
	p.server = httpd.New(h, httpd.Options{Logger: p.Log, Changes: p.Changes, Doors: p.Doors, Door: p.Door})
	p.server.Start(ln)
	if !p.Optional {
		p.Log.Info(p.What+" is serving", "address", p.at.String())
	}
	if p.profiles != nil {
		p.Log.Warn(p.What+" serves profiles to every client that reaches it: debug.pprof is http", "address", p.at.String())
	}
	return nil
}

// Stop ends the server: gracefully until ctx ends, then at once.
func (p *HTTP) Stop(ctx context.Context) error {
	if p.profiles != nil {
		p.profiles.Stop()
	}
	if p.server == nil {
		return nil
	}
	return p.server.Stop(ctx)
}

// Addr returns the address of the port, nil while it is not bound.
func (p *HTTP) Addr() net.Addr { return p.at }
