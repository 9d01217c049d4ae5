package launch

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict/evictwire"
	"github.com/mooncake-go/mooncake/sdk/serve"
)

// byHand starts the program as an operator would, below the words of a debugger, and returns the process of the shell.
func byHand(t *testing.T, h ByHand, words string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", `. "$0" && `+words+` > "$2"`, h.Env, h.Program, h.Stdout)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	return cmd
}

// TestAProgramThatIsStartedByHand: the host uses it as one of its own, and asks it to end.
func TestAProgramThatIsStartedByHand(t *testing.T) {
	under := map[string]string{"alone": `exec "$1"`, "after other lines": `echo one line && echo 'a|b|c' && exec "$1"`}
	if gdb, err := exec.LookPath("gdb"); err == nil {
		under["gdb"] = gdb + ` -q -batch -ex 'handle SIGURG nostop noprint' -ex run "$1"`
	}
	for name, words := range under {
		t.Run(name, func(t *testing.T) {
			o, _ := options("")
			o.StartTimeout = time.Minute
			var shell *exec.Cmd
			o.ByHand = func(h ByHand) { shell = byHand(t, h, words) }
			p, err := Start(t.Context(), o)
			require.NoError(t, err)
			require.NoError(t, p.Client().Configure(t.Context(), p.API(), nil))
			require.NoError(t, p.Client().Start(t.Context(), nil))
			_, err = p.Client().(*evictwire.Client).Stats(t.Context())
			require.NoError(t, err)
			assert.False(t, gone(p.PID()))
			require.NoError(t, p.Close(context.Background()))
			require.NoError(t, shell.Wait(), "it was asked to end, and not killed")
			<-p.Done()
			assert.True(t, gone(p.PID()))
		})
	}
}

// TestAProgramByHandThatEnds: its end is noticed without the host being its parent.
func TestAProgramByHandThatEnds(t *testing.T) {
	o, _ := options("")
	o.StartTimeout = time.Minute
	var shell *exec.Cmd
	o.ByHand = func(h ByHand) { shell = byHand(t, h, `exec "$1"`) }
	p, err := Start(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, shell.Process.Pid, p.PID())
	require.NoError(t, shell.Process.Kill())
	require.Error(t, shell.Wait())
	<-p.Done()
	assert.Contains(t, p.Ending(), "it was started by hand")
	require.NoError(t, p.Close(context.Background()))
}

// TestAProgramByHandIsNotKilled: a debugger may hold it for as long as it likes.
func TestAProgramByHandIsNotKilled(t *testing.T) {
	o, _ := options("")
	o.StartTimeout = time.Minute
	var shell *exec.Cmd
	o.ByHand = func(h ByHand) { shell = byHand(t, h, `exec "$1"`) }
	p, err := Start(t.Context(), o)
	require.NoError(t, err)
	p.Kill()
	<-p.Done()
	assert.Contains(t, p.Ending(), "was let go by the host")
	require.NoError(t, shell.Process.Signal(syscall.SIGTERM))
	require.Error(t, shell.Wait())
	assert.Equal(t, serve.ExitHostGone, shell.ProcessState.ExitCode(), "it ends of itself, since only this signal reaches it")
	require.NoError(t, p.Close(context.Background()))
}

// TestNothingIsStartedByHand: the wait ends with its context, and leaves no folder behind.
func TestNothingIsStartedByHand(t *testing.T) {
	for name, words := range map[string]string{"nothing": "", "no plugin": `yes >`} {
		t.Run(name, func(t *testing.T) {
			o, _ := options("")
			ctx, cancel := context.WithCancel(t.Context())
			var dir string
			o.StartTimeout = time.Minute
			o.ByHand = func(h ByHand) {
				dir = filepath.Dir(h.Stdout)
				if words == "" {
					cancel()
					return
				}
				out, err := os.OpenFile(h.Stdout, os.O_WRONLY, 0)
				assert.NoError(t, err)
				_, err = out.WriteString(strings.Repeat("no\n", maxChatter))
				assert.NoError(t, err)
				assert.NoError(t, out.Close())
			}
			_, err := Start(ctx, o)
			cancel()
			require.Error(t, err)
			if words != "" {
				assert.ErrorContains(t, err, "is the handshake of a plugin")
			} else {
				assert.ErrorIs(t, err, errs.RPCFail.Err())
			}
			assert.NoDirExists(t, dir)
		})
	}
}

func TestExports(t *testing.T) {
	out, err := exec.Command("sh", "-c", string(exports([]string{"A=it's\ntwo lines", "B=$A `x`"}))+`printf '%s|%s' "$A" "$B"`).Output()
	require.NoError(t, err)
	assert.Equal(t, "it's\ntwo lines|$A `x`", string(out))
}
