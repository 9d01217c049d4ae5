// Command evict is a plugin for the tests of package pluginhost: a small eviction policy that
// crashes and hangs on command.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/serve"
)

//go:generate go run . --manifest manifest.json
//go:embed manifest.json
var manifest string

func main() {
	// The commands of the environment take effect before the handshake.
	switch os.Getenv("FAULTY") {
	case "exit":
		fmt.Fprintln(os.Stderr, "no device of this kind")
		os.Exit(7)
	case "attack":
		attack(os.Getenv("ATTACK"))
	case "silent":
		stand()
	case "leave group":
		// Join the group of the host, where a signal for the plugin's own group does not reach it.
		group, err := syscall.Getpgid(os.Getppid())
		if err == nil {
			err = syscall.Setpgid(0, group)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(8)
		}
	case "babble":
		fmt.Fprintln(os.Stderr, `{"@message": 5, "@level": ["x"]}`)
		fmt.Println("hello, I am no plugin")
		stand()
	}
	serve.Main(evict.Define(plugin.MustParseManifest(manifest), func() *config { return &config{} },
		func(c *config) (evict.Policy, error) {
			return &policy{cfg: *c, proposed: map[evict.ID]uint64{}}, nil
		}))
}

// stand waits forever. A bare select would end the program if the runtime sees that all
// goroutines are blocked.
func stand() {
	for {
		time.Sleep(time.Hour)
	}
}

type config struct {
	// CrashAtStart ends the process in Start.
	CrashAtStart bool `json:"crash_at_start"`
	// CrashIfExists ends the process in Start where this file exists.
	CrashIfExists string `json:"crash_if_exists"`
	// Spawn starts a child process that tries to outlive this one.
	Spawn bool `json:"spawn"`
	// Daemon starts a process that leaves this one's group and is not its child any more.
	Daemon bool `json:"daemon"`
	// Print is how many bytes Start writes to standard output, as a library might, without a
	// newline.
	Print int `json:"print"`
	// Refuse makes Validate fail.
	Refuse bool `json:"refuse"`
}

func (c *config) Validate() error {
	if c.Refuse {
		return errors.New("refuse must be false")
	}
	return nil
}

// The IDs that are commands. The tests use the same numbers.
const (
	crash   = evict.ID(0xdead)
	hang    = evict.ID(0x4a6)
	degrade = evict.ID(0xdec)
)

type policy struct {
	cfg config

	mu       sync.Mutex
	host     plugin.Host
	order    []evict.Candidate
	proposed map[evict.ID]uint64
}

func (p *policy) Start(ctx context.Context, h plugin.Host) error {
	p.host = h
	if p.cfg.Spawn {
		child := exec.CommandContext(context.WithoutCancel(ctx), "sleep", "1000")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			return err
		}
		h.Logger().Info("spawned", "child", child.Process.Pid)
	}
	if p.cfg.Daemon {
		out, err := exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", `(setsid sh -c 'setsid sh -c "echo \$\$; exec sleep 1000 >/dev/null 2>&1" &' &)`).Output()
		if err != nil {
			return err
		}
		h.Logger().Info("spawned", "child", strings.TrimSpace(string(out)))
	}
	for left := p.cfg.Print; left > 0; {
		n, err := syscall.Write(1, []byte(strings.Repeat("x", min(left, 4096))))
		if err != nil {
			return err
		}
		left -= n
	}
	_, err := os.Stat(p.cfg.CrashIfExists)
	if p.cfg.CrashAtStart || p.cfg.CrashIfExists != "" && err == nil {
		fmt.Fprintln(os.Stderr, "the frobnicator is missing")
		os.Exit(4)
	}
	h.Logger().Info("ready")
	return nil
}

func (p *policy) Stop(context.Context) error { return nil }

func (p *policy) Record(_ context.Context, events []evict.Event) error {
	for _, e := range events {
		switch e.ID {
		case crash:
			panic("told to crash")
		case hang:
			select {}
		case degrade:
			p.host.Report(plugin.Health{State: plugin.StateDegraded, Reason: "told to"})
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range events {
		if e.Op == evict.Insert {
			p.order = append(p.order, evict.Candidate{ID: e.ID, Size: e.Size})
		}
	}
	return nil
}

// SetCapacity implements evict.Sized.
func (p *policy) SetCapacity(_ context.Context, bytes uint64) error {
	p.host.Logger().Info("capacity", "bytes", bytes)
	return nil
}

func (p *policy) Propose(_ context.Context, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for sum := uint64(0); sum < bytes && len(dst) < cap(dst) && len(p.order) > 0; p.order = p.order[1:] {
		c := p.order[0]
		p.proposed[c.ID] = c.Size
		sum += c.Size
		dst = append(dst, c)
	}
	return dst, nil
}

func (p *policy) Resolve(_ context.Context, verdicts []evict.Verdict) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range verdicts {
		if size, ok := p.proposed[v.ID]; ok && !v.Evicted {
			p.order = append(p.order, evict.Candidate{ID: v.ID, Size: size})
		}
		delete(p.proposed, v.ID)
	}
	return nil
}

func (p *policy) Stats(context.Context) (evict.Stats, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return evict.Stats{Objects: uint64(len(p.order) + len(p.proposed)), Proposed: uint64(len(p.proposed))}, nil
}
