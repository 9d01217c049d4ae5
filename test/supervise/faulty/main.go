// Command faulty is transport/tcp with faults to order, for the tests of package supervise.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/serve"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

//go:embed manifest.json
var manifest string

type config struct {
	// TCP are the settings of transport/tcp.
	Port int `json:"port"`
	// CrashOn ends the process at the operation with this number, counted from 1.
	CrashOn int64 `json:"crash_on"`
	// CrashIfExists ends the process in Start where this file exists.
	CrashIfExists string `json:"crash_if_exists"`
	// HoldIfExists keeps operations while this file exists.
	HoldIfExists string `json:"hold_if_exists"`
	// IgnoreStop never ends Stop.
	IgnoreStop bool `json:"ignore_stop"`
	// Spawn starts a child that outlives this process, if it can, and writes its number there.
	Spawn string `json:"spawn"`
	// Daemon is Spawn of one in a session of its own, which is not this process's child any more.
	Daemon string `json:"daemon"`
}

func (c *config) Validate() error { return nil }

func main() {
	serve.Main(transport.Define(plugin.MustParseManifest(manifest), func() *config { return &config{} }, create))
}

func create(c *config) (transport.Transport, error) {
	for _, f := range builtin.Plugins() {
		tcp, ok := f.(transport.Factory)
		if !ok || f.Manifest().Name != "tcp" {
			continue
		}
		cfg := f.DefaultConfig()
		if err := set(cfg, map[string]any{"host": "127.0.0.1", "port": c.Port}); err != nil {
			return nil, err
		}
		t, err := tcp.New(cfg)
		return &faulty{Transport: t, cfg: *c}, err
	}
	return nil, fmt.Errorf("there is no transport/tcp")
}

type faulty struct {
	transport.Transport
	cfg config
	ops atomic.Int64
}

func (m *faulty) Start(ctx context.Context, h plugin.Host) error {
	if _, err := os.Stat(m.cfg.CrashIfExists); m.cfg.CrashIfExists != "" && err == nil {
		fmt.Fprintln(os.Stderr, "the frobnicator is missing")
		os.Exit(4)
	}
	if m.cfg.Spawn != "" {
		child := exec.CommandContext(context.WithoutCancel(ctx), "sleep", "1000")
		if err := child.Start(); err != nil {
			return err
		}
		if err := os.WriteFile(m.cfg.Spawn, []byte(strconv.Itoa(child.Process.Pid)), 0o600); err != nil {
			return err
		}
		go func() { _ = child.Wait() }()
	}
	if m.cfg.Daemon != "" {
		out, err := exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", `(setsid sh -c 'setsid sh -c "echo \$\$; exec sleep 1000 >/dev/null 2>&1" &' &)`).Output()
		if err == nil {
			err = os.WriteFile(m.cfg.Daemon, bytes.TrimSpace(out), 0o600)
		}
		if err != nil {
			return err
		}
	}
	return m.Transport.Start(ctx, h)
}

func (m *faulty) Stop(ctx context.Context) error {
	if m.cfg.IgnoreStop {
		for {
			time.Sleep(time.Hour)
		}
	}
	return m.Transport.Stop(ctx)
}

func (m *faulty) Dial(ctx context.Context, ep transport.Endpoint) (transport.Path, error) {
	p, err := m.Transport.Dial(ctx, ep)
	if err != nil {
		return nil, err
	}
	return &path{p, m}, nil
}

type path struct {
	transport.Path
	m *faulty
}

func (p *path) Submit(ops []transport.Op) (int, error) {
	if p.m.cfg.HoldIfExists != "" {
		if _, err := os.Stat(p.m.cfg.HoldIfExists); err == nil {
			return 0, nil // Back-pressure, until the file is gone.
		}
	}
	if n := p.m.ops.Add(int64(len(ops))); p.m.cfg.CrashOn > 0 && n >= p.m.cfg.CrashOn {
		panic("told to crash")
	}
	return p.Path.Submit(ops)
}
