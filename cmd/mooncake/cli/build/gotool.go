package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// gotool runs the go command in the folder of the generated module.
type gotool struct {
	path    string
	dir     string
	environ []string
}

// findGo finds the go command. environ is that of this process.
func findGo(dir string, environ []string) (gotool, error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return gotool{}, fmt.Errorf("there is no go command in PATH, and linking a plugin in compiles it; install Go from https://go.dev/dl, or run the plugin as a program of its own: mooncake plugins install: %w", err)
	}
	// What changes the bytes of a program is set here. Where modules come from, and for which
	// platform the program is, remains the user's choice.
	own := []string{"GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0", "GO111MODULE=on", "GOEXPERIMENT=", "GODEBUG=", "GOAMD64=v1", "GOARM64=v8.0"}
	kept := slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		return slices.ContainsFunc(own, func(set string) bool { return strings.HasPrefix(kv, set[:strings.Index(set, "=")+1]) })
	})
	return gotool{path: path, dir: dir, environ: append(kept, own...)}, nil
}

const (
	// killAfter is how long the go command may take to end when it is told to.
	killAfter = 5 * time.Second
	// shownLines bounds how much of the go command's messages an error has.
	shownLines = 12
)

// run returns the standard output of the go command.
func (g gotool) run(ctx context.Context, environ []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, g.path, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = g.dir, append(slices.Clone(g.environ), environ...), killAfter
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil {
		return stdout.Bytes(), nil
	}
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return nil, fmt.Errorf("go %s: %w:\n%s", args[0], err, lastLines(stderr.String()))
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > shownLines {
		lines = append([]string{"..."}, lines[len(lines)-shownLines:]...)
	}
	return "  " + strings.Join(lines, "\n  ")
}

// env returns variables of the go command.
func (g gotool) env(ctx context.Context, names ...string) ([]string, error) {
	out, err := g.run(ctx, nil, append([]string{"env"}, names...)...)
	if err != nil {
		return nil, err
	}
	values := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(values) != len(names) {
		return nil, fmt.Errorf("go env %v answered %q", names, out)
	}
	return values, nil
}
