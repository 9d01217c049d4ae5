package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/observe"
	"github.com/mooncake-go/mooncake/core/vault"
)

// keeperStart bounds the start of a keeper in the background.
const keeperStart = 5 * time.Second

type keepFlags struct {
	socket string
	cfg    vault.KeeperConfig
	detach bool
}

// Keep makes the verb keep.
func Keep(e *command.Env) *cobra.Command {
	f := keepFlags{cfg: vault.DefaultKeeperConfig()}
	cmd := &cobra.Command{
		Use:   "keep",
		Short: "Keep the memory of stores while their processes restart",
		Long: `A keeper holds the memory of the stores of its user while they do not run, so that a store
that was killed, upgraded or configured anew finds its objects again. It holds descriptors and
does nothing else; the memory costs what the stores wrote. A store uses it with --keep keeper,
which also starts one if none runs, or with --keep and the keeper's socket. With --keep auto
a store uses a keeper of its user that runs already.

When the keeper ends, what it keeps for stores that do not run is freed. A store that runs goes
on, and finds the next keeper within 15 s. Under systemd use the descriptor store of the unit
instead (FileDescriptorStoreMax=), which needs no keeper.`,
		Example: `  mooncake keep
  mooncake keep --keep_time 10m --socket /run/mooncake/keep.sock
  mooncake keep --detach`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.cfg.KeepTime <= 0 || f.cfg.MaxFiles <= 0 || f.cfg.Idle < 0 {
				return command.Usagef("--keep_time and --max_files must be above 0, and --idle 0 or more")
			}
			if len(f.socket) < 2 || len(f.socket) > 107 || f.socket[0] != '@' && f.socket[0] != '/' {
				return command.Usagef("--socket %q must be an absolute path, or @ and an abstract name, of at most 107 bytes", f.socket)
			}
			if f.detach {
				return detach(cmd.Context(), e, f)
			}
			ctx, stop := command.UntilInterrupted(cmd.Context())
			defer stop()
			return keep(ctx, e.Stderr, f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.socket, "socket", vault.Socket(), "where stores connect: an absolute path, or @ and an abstract name")
	fs.DurationVar(&f.cfg.KeepTime, "keep_time", f.cfg.KeepTime, "how long memory is kept while its store does not run")
	fs.IntVar(&f.cfg.MaxFiles, "max_files", f.cfg.MaxFiles, "most descriptors of all stores together; a segment has two")
	fs.DurationVar(&f.cfg.Idle, "idle", f.cfg.Idle, "end after this time without a store and without kept memory; 0 for never")
	fs.BoolVar(&f.detach, "detach", false, "start the keeper in the background and return when it serves")
	return cmd
}

// keep serves stores until the context ends.
func keep(ctx context.Context, stderr io.Writer, f keepFlags) error {
	log, err := observe.NewLogger(stderr, "info", "text")
	if err != nil {
		return err
	}
	if f.socket[0] == '/' {
		// What a keeper left that was killed is in the way. One that lives answers.
		if err := answers(ctx, f.socket); err == nil {
			return fmt.Errorf("a keeper listens at %s already", f.socket)
		} else if errors.Is(err, unix.ECONNREFUSED) {
			_ = os.Remove(f.socket)
		}
		defer syscall.Umask(syscall.Umask(0o077)) // Other users cannot connect.
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: f.socket, Net: "unixpacket"})
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("a keeper listens at %s already: %w", f.socket, err)
	case err != nil:
		return fmt.Errorf("keeper: %w", err)
	}
	log.Info("the keeper serves the stores of this user", "socket", f.socket, "keep_time", f.cfg.KeepTime, "max_files", f.cfg.MaxFiles)
	return vault.NewKeeper(f.cfg, log).Serve(ctx, l)
}

// detach starts a keeper that outlives this process, its session and its terminal.
func detach(ctx context.Context, e *command.Env, f keepFlags) error {
	path := filepath.Join(os.TempDir(), "mooncake-keep-"+strconv.Itoa(os.Geteuid())+".log")
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // The keeper writes it.
	begin, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	cmd := exec.Command(e.Program, "keep", "--socket", f.socket, "--keep_time", f.cfg.KeepTime.String(), //nolint:gosec,noctx // The own program, which outlives the context.
		"--max_files", strconv.Itoa(f.cfg.MaxFiles), "--idle", f.cfg.Idle.String())
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = "/", out, out, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ctx, cancel := context.WithTimeout(ctx, keeperStart)
	defer cancel()
	for {
		if answers(ctx, f.socket) == nil {
			fmt.Fprintf(e.Stdout, "the keeper is process %d; it listens at %s and writes its log to %s\n", cmd.Process.Pid, f.socket, path)
			return nil
		}
		select {
		case err := <-ended:
			return fmt.Errorf("the keeper did not start: %w: %s", err, since(path, begin))
		case <-ctx.Done():
			return fmt.Errorf("the keeper does not listen at %s after %s; its log is %s", f.socket, keeperStart, path)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// answers reports whether a keeper listens at a socket.
func answers(ctx context.Context, socket string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unixpacket", socket)
	if err != nil {
		return err
	}
	return c.Close()
}

// since is what was written to a file from an offset on.
func since(path string, begin int64) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[min(begin, int64(len(b))):]))
}
