package launch

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// parent reads the number of a process's parent.
func parent(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(procFile(pid, "status"))
	require.NoError(t, err)
	m := regexp.MustCompile(`(?m)^PPid:\s+(\d+)`).FindStringSubmatch(string(text))
	require.NotNil(t, m)
	n, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	return n
}

// startDaemon starts the plugin with a daemon: a process in a session of its own whose parents
// have ended.
func startDaemon(t *testing.T) (p *Process, daemon int) {
	t.Helper()
	p, _, log := start(t, `{"daemon": true}`)
	eventually(t, "spawned", func() bool { return spawned.MatchString(log.String()) })
	daemon, err := strconv.Atoi(spawned.FindStringSubmatch(log.String())[1])
	require.NoError(t, err)
	require.False(t, gone(daemon))
	return p, daemon
}

// TestDaemonsDieWithTheChild: a process cannot outlive the plugin by becoming a daemon.
func TestDaemonsDieWithTheChild(t *testing.T) {
	for name, end := range map[string]func(*Process){
		"SIGKILL from outside": func(p *Process) { _ = syscall.Kill(p.PID(), syscall.SIGKILL) },
		"SIGTERM from outside": func(p *Process) { _ = syscall.Kill(p.PID(), syscall.SIGTERM) },
		"closed":               func(p *Process) { _ = p.Close(context.Background()) },
		"killed":               func(p *Process) { p.Kill() },
		"keeper stopped": func(p *Process) {
			_ = syscall.Kill(p.child.cmd.Process.Pid, syscall.SIGSTOP)
			p.Kill()
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, daemon := startDaemon(t)
			end(p)
			<-p.Reaped()
			assert.True(t, gone(daemon), "before the child counts as gone")
			<-p.Done()
		})
	}
}

// TestAKeeperThatIsGone: the plugin ends with its keeper, and the host notices.
func TestAKeeperThatIsGone(t *testing.T) {
	p, policy, _ := start(t, `{"spawn": true}`)
	require.Equal(t, p.child.cmd.Process.Pid, parent(t, p.PID()))
	require.NoError(t, syscall.Kill(p.child.cmd.Process.Pid, syscall.SIGKILL))
	<-p.Reaped()
	assert.True(t, gone(p.PID()), "it does not touch memory any more")
	<-p.Done()
	assert.Contains(t, p.Ending(), "signal 9")
	assert.Error(t, policy.Stop(t.Context()))
}

// TestAKeeperThatStandsStill: it does not block the host, which kills it once the plugin has ended.
func TestAKeeperThatStandsStill(t *testing.T) {
	p, _, _ := start(t, "")
	require.NoError(t, syscall.Kill(p.child.cmd.Process.Pid, syscall.SIGSTOP))
	require.NoError(t, syscall.Kill(p.PID(), syscall.SIGKILL))
	select {
	case <-p.Done():
	case <-time.After(time.Minute):
		t.Fatal("the host waits for the keeper")
	}
}

// TestWithoutAKeeper: the plugin runs without a keeper if there can be none, and the log says so.
func TestWithoutAKeeper(t *testing.T) {
	o, log := options("")
	o.system.noKeeper = errors.New("none today")
	p, err := Start(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, os.Getpid(), parent(t, p.PID()))
	assert.Contains(t, log.String(), "level=WARN msg=\"the plugin runs without a keeper")
	assert.Contains(t, log.String(), "none today")
	require.NoError(t, p.Client().Configure(t.Context(), p.API(), []byte(`{"spawn": true}`)))
	require.NoError(t, p.Client().Start(t.Context(), nil))
	eventually(t, "spawned", func() bool { return spawned.MatchString(log.String()) })
	child, err := strconv.Atoi(spawned.FindStringSubmatch(log.String())[1])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(p.PID(), syscall.SIGKILL))
	<-p.Done()
	eventually(t, "the grandchild is gone", func() bool { return gone(child) })
	assert.Contains(t, p.Ending(), "signal 9")
	require.NoError(t, p.Close(t.Context()))
}

// TestNoKeeperOfAProgramThatCannotRun: Start returns the error that the keeper reports.
func TestNoKeeperOfAProgramThatCannotRun(t *testing.T) {
	before := openFiles(t)
	for text, want := range map[string]string{"\x7fELF nonsense": "neither a program for", "#!/nonexistent/sh\n": "no such file"} {
		o, _ := options("")
		o.Path = program(t, []byte(text))
		_, err := Start(t.Context(), o)
		require.ErrorIs(t, err, errs.FileOpenFail.Err())
		assert.ErrorContains(t, err, want)
	}
	eventually(t, "nothing is left open", func() bool { return openFiles(t) <= before })
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

// TestTheKeepersProgramCannotBeChanged: the program is sealed, and the plugin does not inherit it.
func TestTheKeepersProgramCannotBeChanged(t *testing.T) {
	f, err := keeperProgram(3, 4, nil)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("x"), 0)
	require.ErrorIs(t, err, unix.EPERM)
	p, _, _ := start(t, "")
	links, err := os.ReadDir(procFile(p.PID(), "fd"))
	require.NoError(t, err)
	for _, l := range links {
		to, _ := os.Readlink(procFile(p.PID(), "fd/"+l.Name()))
		assert.False(t, strings.Contains(to, "mooncake-keeper"), to)
	}
}
