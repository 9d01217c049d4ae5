package launch

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/internal/hclogbridge"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch/sandbox"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/wire"
	"github.com/mooncake-go/mooncake/sdk/wire/kinds"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

const (
	// DefaultStartTimeout bounds the time from the start of the program to the end of the
	// handshake.
	DefaultStartTimeout = 10 * time.Second
	// DefaultStderrLines is how many of the last lines of a child are kept.
	DefaultStderrLines = 20
	// closeGrace is how long a child may take to exit on its own.
	closeGrace = 2 * time.Second
)

// Options say what to start and how.
type Options struct {
	// Path is the absolute path of the program. If there is an Image, it is used in messages
	// only. The caller has checked that the program may be trusted.
	Path string
	// Image holds the bytes to run; Start closes it. If it is nil, Start makes one of Path.
	Image *Image
	// Name is the name that the program gets as its argument zero and in wire.PathEnv; it
	// defaults to Path. For a script the kernel chooses argument zero.
	Name string
	// ID is the plugin that the program must turn out to be.
	ID plugin.ID
	// API lists the contract versions that the host speaks.
	API []uint
	// Env names further variables of the host that the child gets.
	Env []string
	// Limits bound what the child may use.
	Limits Limits
	// Sandbox says which rights the child keeps; its zero value takes none away. The folder of the
	// child's socket need not be in it.
	Sandbox sandbox.Policy
	// ByHand makes Start wait for a program that an operator starts, instead of starting one. Start calls
	// it when the program may be started. The host then does not end the process, sets no limits, and
	// takes no rights away. The operator vouches for the program.
	ByHand func(ByHand)
	// StartTimeout defaults to DefaultStartTimeout. It bounds the operator as well.
	StartTimeout time.Duration
	// CallTimeout bounds each call of the kind. It defaults to wire.DefaultTimeout.
	CallTimeout time.Duration
	// StderrLines defaults to DefaultStderrLines.
	StderrLines int
	// Logger receives the child's log; nil discards.
	Logger *slog.Logger

	lookupEnv func(string) (string, bool)
	system    system
}

// Process is a running plugin program. Safe for concurrent use.
type Process struct {
	child  *child
	host   *goplugin.Client
	client wire.Client
	about  wire.Description
	api    uint
	secure *tls.Config
	data   *shm.Conn // for descriptors, nil for kinds that pass none

	closing sync.Once
	closed  chan struct{}
}

// Start starts the program and agrees with it on a contract version. After an error no process
// is left, and the error includes the child's last lines. Its code is InvalidVersion if the two
// have no version in common, RPCTimeout if the child was too slow, and RPCFail if the child
// ended or broke the protocol.
func Start(ctx context.Context, o Options) (*Process, error) {
	o.fill()
	op := "launch " + o.ID.String()
	var err error
	if o.Image == nil {
		if o.Image, err = OpenImage(o.Path); err != nil {
			return nil, errs.Wrap(errs.CodeOf(err), op+" ("+o.Path+")", err)
		}
	}
	defer o.Image.Close()
	kind, err := kinds.Of(o.ID.Kind)
	if err != nil {
		return nil, errs.Wrap(errs.CodeOf(err), op, err)
	}
	if !o.Image.Sealed {
		o.Logger.Warn("the program runs from its file, because this kernel runs no copies in memory (vm.memfd_noexec): a user who may write the file can change the program while it runs",
			"path", o.Path)
	}
	secure, certificate, err := identity()
	if err != nil {
		return nil, errs.Wrap(errs.Internal, op, err)
	}
	out := &output{logger: o.Logger, keep: o.StderrLines}
	p := &Process{child: newChild(context.WithoutCancel(ctx), o, out), secure: secure, closed: make(chan struct{})}
	ctx, cancel := context.WithTimeout(ctx, o.StartTimeout)
	defer cancel()
	if o.ByHand != nil {
		p.child.hand = &hand{announce: o.ByHand, ctx: ctx, gone: make(chan struct{})}
	}
	if kind.Data {
		if p.data, p.child.data, err = shm.Pair("descriptors of " + o.ID.String()); err != nil {
			return nil, errs.Wrap(errs.Internal, op, err)
		}
	}
	p.host = goplugin.NewClient(p.config(ctx, o, kind, certificate))
	// The calls below end when the child does, so killing it enforces the deadline.
	give := context.AfterFunc(ctx, p.child.kill)
	err = p.connect(ctx, o)
	if give() && err == nil {
		return p, nil
	}
	if err == nil {
		err = ctx.Err()
	}
	return nil, p.explain(ctx, o, err)
}

func (o *Options) fill() {
	if o.StartTimeout <= 0 {
		o.StartTimeout = DefaultStartTimeout
	}
	if o.StderrLines <= 0 {
		o.StderrLines = DefaultStderrLines
	}
	if o.Name == "" {
		o.Name = o.Path
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.lookupEnv == nil {
		o.lookupEnv = os.LookupEnv
	}
}

func (p *Process) config(ctx context.Context, o Options, kind wire.Descriptor, certificate string) *goplugin.ClientConfig {
	return &goplugin.ClientConfig{
		HandshakeConfig:  wire.Handshake(),
		VersionedPlugins: wire.ClientPlugins(kind, o.API, wire.ClientOptions{ID: o.ID, Timeout: o.CallTimeout, Data: p.data, Kill: p.child.killFor}),
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, dir string) (runner.Runner, error) {
			p.child.cmd.Env = append(spec.Env, environment(ctx, o)...)
			p.child.cmd.Env = append(p.child.cmd.Env, clientCertEnv+"="+certificate)
			p.child.cmd.Env = append(p.child.cmd.Env, p.child.box.own(dir)...)
			if p.child.hand != nil {
				p.child.hand.dir = dir
			}
			return p.child, nil
		},
		SkipHostEnv:      true,
		TLSConfig:        p.secure,
		StartTimeout:     o.StartTimeout,
		Logger:           hclogbridge.New(o.Logger, slog.LevelDebug),
		SyncStdout:       p.child.out,
		SyncStderr:       p.child.out,
		GRPCDialOptions:  wire.GRPCDialOptions(),
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: socketDir(os.TempDir())},
	}
}

// socketDir keeps the path of the socket below the 108 bytes that the kernel allows.
func socketDir(tmp string) string {
	if len(tmp) > 60 {
		return "/tmp"
	}
	return tmp
}

func (p *Process) connect(ctx context.Context, o Options) error {
	proto, err := p.host.Client()
	if err != nil {
		return err
	}
	raw, err := proto.Dispense(wire.PluginName)
	if err != nil {
		return err
	}
	client, ok := raw.(wire.Client)
	if !ok {
		return fmt.Errorf("the program dispensed a %T", raw)
	}
	p.client = client
	if p.about, err = client.Describe(ctx); err != nil {
		return err
	}
	if p.about.ID != o.ID {
		return errs.New(errs.InvalidParams, "", "the program says that it is %s", p.about.ID)
	}
	p.api = uint(p.host.NegotiatedVersion())
	if !slices.Contains(p.about.API, p.api) {
		return errs.New(errs.InvalidVersion, "", "the handshake chose contract version %d, but the program's manifest names %v", p.api, p.about.API)
	}
	return nil
}

// explain ends the child and makes an error that a user can act on.
func (p *Process) explain(ctx context.Context, o Options, err error) error {
	p.child.kill()
	_ = p.Close(ctx)
	op := "launch " + o.ID.String() + " (" + o.Path + ")"
	switch text := err.Error(); {
	case slices.Contains([]errs.Code{errs.InvalidVersion, errs.InvalidParams, errs.NotSupported}, errs.CodeOf(err)):
		return errs.Wrap(errs.CodeOf(err), op, err)
	case strings.Contains(text, "incompatible API version"):
		_, text, _ = strings.Cut(text, "with plugin. ")
		return errs.WithHint(errs.New(errs.InvalidVersion, op, "no common contract version: this host speaks %v; %s", o.API, text),
			"install a plugin built for this host, or the other way round")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = errs.New(errs.RPCTimeout, op, "no handshake within %s", o.StartTimeout)
	case ctx.Err() != nil:
		return errs.Wrap(errs.RPCFail, op, ctx.Err())
	case errors.Is(err, unix.ENOEXEC):
		return errs.New(errs.FileOpenFail, op, "it is neither a program for %s/%s nor a script that begins with #! and its interpreter: %w", runtime.GOOS, runtime.GOARCH, err)
	case p.child.cmd.Process == nil && p.child.hand == nil:
		return errs.Wrap(errs.FileOpenFail, op, err)
	case p.child.hand != nil:
		return errs.New(errs.RPCFail, op, "%s", firstLine(text))
	default:
		err = errs.New(errs.RPCFail, op, "the program %s before it was ready", p.child.ending())
		if p.child.ending() == killedByHost {
			err = errs.New(errs.RPCFail, op, "%s", firstLine(text))
		}
	}
	return withTail(err, p.child.out.lines())
}

// withTail adds the last lines of a child to an error.
func withTail(err error, lines []string) error {
	if len(lines) == 0 {
		return errs.WithHint(err, "it wrote nothing to standard error")
	}
	return errs.WithHint(err, "its last lines: %s", strings.Join(lines, " | "))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return printable(line)
}

// Client returns the plugin: the client of its kind.
func (p *Process) Client() wire.Client { return p.client }

// Manifest returns what the program says of itself.
func (p *Process) Manifest() plugin.Manifest { return p.about.Manifest }

// Settings returns the JSON Schema of the settings that the program accepts, nil if it does not tell.
func (p *Process) Settings() json.RawMessage { return p.about.Settings }

// API returns the contract version that both sides use.
func (p *Process) API() uint { return p.api }

// SHA256 is the checksum of the bytes that run.
func (p *Process) SHA256() string { return p.child.image.SHA256 }

// Limits says which limits hold, and which do not and why. It is empty if no limits are set.
func (p *Process) Limits() string { return p.child.limits.String() }

// Sandbox says which rights were taken from the process, and which could not be. It is empty if none was to be taken.
func (p *Process) Sandbox() string { return p.child.box.String() }

// PID returns the process number, for logs.
func (p *Process) PID() int { return p.child.pid() }

// Done is closed when the process is gone and its log has been read.
func (p *Process) Done() <-chan struct{} { return p.child.done }

// Reaped is closed when the process is collected; its log may still be read.
func (p *Process) Reaped() <-chan struct{} { return p.child.reaped }

// Lines returns the last lines that the process wrote.
func (p *Process) Lines() []string { return p.child.out.lines() }

// Kill kills the process group without waiting. It may be called more than once.
func (p *Process) Kill() { p.child.kill() }

// Broke says how the process broke the contract, if the host killed it for that, and is empty otherwise. Valid once Reaped is
// closed.
func (p *Process) Broke() string { return p.child.broke() }

// Ending says how the process ended, with its last lines. Valid once Done is closed.
func (p *Process) Ending() string {
	text := "the process " + p.child.ending()
	if lines := p.child.out.lines(); len(lines) > 0 {
		text += "; its last lines: " + strings.Join(lines, " | ")
	}
	return text
}

// Close asks the process to exit and frees everything. It kills the process group after 2 seconds
// or when the context ends. Close may be called more than once: a second call waits for the
// first one, or for its context.
func (p *Process) Close(ctx context.Context) error {
	p.closing.Do(func() {
		go func() {
			defer close(p.closed)
			impatient := context.AfterFunc(ctx, p.child.kill)
			defer impatient()
			timer := time.AfterFunc(closeGrace, p.child.kill)
			defer timer.Stop()
			p.host.Kill()
			p.child.kill()
			if p.data != nil {
				_ = p.data.Close()
			}
		}()
	})
	select {
	case <-p.closed:
		return nil
	case <-ctx.Done():
	}
	// The group has been killed; only the kernel has work left.
	select {
	case <-p.closed:
		return nil
	case <-time.After(closeGrace + drainTime):
		return errs.New(errs.Internal, "close "+p.child.path, "process %d does not end although it was killed", p.child.pid())
	}
}
