//go:build amd64 || arm64

package keeper

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// kept is a program that runs below a keeper.
type kept struct {
	keeper *exec.Cmd
	in     io.WriteCloser
	out    *os.File
	pid    int
	failed syscall.Errno
}

func keep(t *testing.T, path string, args ...string) *kept {
	t.Helper()
	return keepSteps(t, nil, path, args...)
}

// keepSteps runs a shell script below a keeper; /bin/sh stands for the plugin's program.
func keepSteps(t *testing.T, steps func(Place) []Step, path string, args ...string) *kept {
	t.Helper()
	text, err := Image(3, 4, steps)
	require.NoError(t, err)
	fd, err := unix.MemfdCreate("keeper", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	program := os.NewFile(uintptr(fd), "keeper")
	_, err = program.Write(text)
	require.NoError(t, err)
	said, report, err := os.Pipe()
	require.NoError(t, err)
	out, stdout, err := os.Pipe()
	require.NoError(t, err)
	k := &kept{out: out}
	k.keeper = exec.Command("/proc/self/fd/4") // Not ended by a context, which would kill the keeper.
	k.keeper.Args = append([]string{path}, args...)
	k.keeper.ExtraFiles, k.keeper.Stdout, k.keeper.Stderr = []*os.File{report, program}, stdout, os.Stderr
	k.in, err = k.keeper.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, k.keeper.Start())
	for _, f := range []*os.File{program, report, stdout} {
		require.NoError(t, f.Close())
	}
	t.Cleanup(func() {
		_ = k.keeper.Process.Signal(syscall.SIGQUIT)
		_ = k.keeper.Wait()
		_ = out.Close()
	})
	b, err := io.ReadAll(said)
	require.NoError(t, err)
	require.NoError(t, said.Close())
	require.Contains(t, []int{4, 8}, len(b))
	for ; len(b) > 0; b = b[4:] {
		if n := int32(binary.NativeEndian.Uint32(b)); n > 0 {
			k.pid = int(n)
		} else {
			k.failed = syscall.Errno(-n)
		}
	}
	require.Positive(t, k.pid)
	return k
}

func script(t *testing.T, text string) *kept { return keep(t, "/bin/sh", "sh", "-c", text) }

// status waits for the keeper, and returns how it ended.
func (k *kept) status(t *testing.T) syscall.WaitStatus {
	t.Helper()
	var failed *exec.ExitError
	if err := k.keeper.Wait(); err != nil {
		require.ErrorAs(t, err, &failed)
	}
	return k.keeper.ProcessState.Sys().(syscall.WaitStatus)
}

// word reads the next line of the script's output.
func (k *kept) word(t *testing.T) string {
	t.Helper()
	var word []byte
	for b := make([]byte, 1); ; {
		_, err := k.out.Read(b)
		require.NoError(t, err)
		if b[0] == '\n' {
			return string(word)
		}
		word = append(word, b[0])
	}
}

func (k *kept) number(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(k.word(t))
	require.NoError(t, err)
	return n
}

// TestSteps: the plugin's process makes the calls in order, with what they point to, and the keeper does not make
// them. A step that fails is named, and the program does not run.
func TestSteps(t *testing.T) {
	name := func(place Place) []Step {
		return []Step{
			{unix.SYS_PRCTL, [6]uint64{unix.PR_SET_NO_NEW_PRIVS, 1}},
			{unix.SYS_CHDIR, [6]uint64{place([]byte("/proc\x00"))}},
			{unix.SYS_CHDIR, [6]uint64{place([]byte("sys\x00"))}},
		}
	}
	k := keepSteps(t, name, "/bin/sh", "sh", "-c", `pwd; grep NoNewPrivs /proc/self/status; grep NoNewPrivs /proc/$PPID/status`)
	assert.Equal(t, "/proc/sys", k.word(t))
	assert.Equal(t, "NoNewPrivs:\t1", k.word(t))
	assert.Equal(t, "NoNewPrivs:\t0", k.word(t), "of the keeper")

	k = keepSteps(t, func(place Place) []Step {
		return append(name(place), Step{unix.SYS_CHDIR, [6]uint64{place([]byte("/none\x00"))}})
	}, "/bin/sh", "sh", "-c", "echo ran")
	assert.Equal(t, syscall.Errno(4<<StepShift|int(unix.ENOENT)), k.failed)
	assert.Equal(t, 127, k.status(t).ExitStatus())
}

// state is the letter of a process's state, empty if there is no such process.
func state(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return after[:1]
}

// gone reports whether a process does not run any more.
func gone(pid int) bool { s := state(pid); return s == "" || s == "Z" }

// lostChild starts a process that has left the group and the session, and whose parents have
// ended. It prints the process number.
const lostChild = `(setsid sh -c 'setsid sh -c "echo \$\$; exec sleep 1000 >/dev/null" &' &); `

func TestItEndsAsThePluginDid(t *testing.T) {
	for _, code := range []int{0, 7, 127, 255} {
		assert.Equal(t, code, script(t, "exit "+strconv.Itoa(code)).status(t).ExitStatus())
	}
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGSEGV, syscall.SIGHUP} {
		if signal.Ignored(s) {
			continue // As under nohup; the shell does not reset it.
		}
		status := script(t, fmt.Sprintf("kill -%d $$", s)).status(t)
		assert.True(t, status.Signaled(), s)
		assert.Equal(t, s, status.Signal())
		assert.False(t, status.CoreDump(), s)
	}
}

// TestWhatThePluginGets: the plugin gets its arguments, its environment, a group of its own, the
// original signal mask, and no descriptor of the keeper's.
func TestWhatThePluginGets(t *testing.T) {
	t.Setenv("KEPT", "yes")
	k := keep(t, "/bin/sh", "name", "-c", `echo $KEPT-$0-$1-$#; ls /proc/self/fd | tr '\n' ' '; echo; grep SigBlk /proc/self/status; read x < /proc/self/stat; echo $x; sleep 1000`, "a", "b c")
	assert.Equal(t, "yes-a-b c-1", k.word(t))
	files := strings.Fields(k.word(t))
	assert.Contains(t, files, "3", "the folder that ls reads: the report was closed")
	assert.NotContains(t, files, "4", "so was the program")
	assert.Equal(t, "SigBlk:\t0000000000000000", k.word(t))
	fields := strings.Fields(k.word(t))
	require.Greater(t, len(fields), 5)
	assert.Equal(t, strconv.Itoa(k.pid), fields[4], "the group")
	assert.Equal(t, strconv.Itoa(k.keeper.Process.Pid), fields[3], "the parent")
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", k.keeper.Process.Pid))
	require.NoError(t, err)
	assert.Empty(t, list, "the keeper holds nothing that belongs to the plugin and its host")
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", k.keeper.Process.Pid))
	require.NoError(t, err)
	assert.Equal(t, "mooncake-keeper", string(bytes.TrimSpace(name)))
}

func TestAProgramThatCannotBeRun(t *testing.T) {
	k := keep(t, "/nonexistent/x")
	assert.Equal(t, syscall.ENOENT, k.failed)
	assert.Equal(t, 127, k.status(t).ExitStatus())
	k = keep(t, "/etc/passwd")
	assert.Equal(t, syscall.EACCES, k.failed)
}

// TestNothingIsLeft: processes that left the group and lost their parents end with the plugin,
// however it ended, and before the keeper does.
func TestNothingIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		then string
		end  func(*kept)
		want syscall.WaitStatus
	}{
		"exits":           {"echo over; read x; exit 3", func(k *kept) { _ = k.in.Close() }, 3 << 8},
		"is killed":       {"echo over; exec sleep 1000", func(k *kept) { _ = syscall.Kill(k.pid, syscall.SIGKILL) }, 9},
		"host wants it":   {"echo over; exec sleep 1000", func(k *kept) { _ = k.keeper.Process.Signal(syscall.SIGQUIT) }, 9},
		"host is gone":    {"echo over; exec sleep 1000", func(k *kept) { _ = k.keeper.Process.Signal(syscall.SIGTERM) }, 15},
		"does not listen": {"trap '' TERM; echo over; while :; do sleep 1000; done", func(k *kept) { _ = k.keeper.Process.Signal(syscall.SIGTERM) }, 9},
		"is stopped": {"echo over; exec sleep 1000", func(k *kept) {
			_ = syscall.Kill(k.pid, syscall.SIGSTOP)
			require.Eventually(t, func() bool { return state(k.pid) == "T" }, time.Minute, time.Millisecond)
			_ = k.keeper.Process.Signal(syscall.SIGTERM)
		}, 9},
	} {
		t.Run(name, func(t *testing.T) {
			const lost = 20
			k := script(t, strings.Repeat(lostChild, lost)+c.then)
			var pids []int
			over := false
			for !over || len(pids) < lost {
				w := k.word(t)
				if w == "over" {
					over = true
					continue
				}
				pid, err := strconv.Atoi(w)
				require.NoError(t, err)
				pids = append(pids, pid)
			}
			c.end(k)
			assert.Equal(t, c.want, k.status(t))
			for _, pid := range pids {
				require.True(t, gone(pid), pid)
			}
		})
	}
}

// TestOrphansAreCollected: no zombies pile up while the plugin runs.
func TestOrphansAreCollected(t *testing.T) {
	k := script(t, "(sh -c 'echo $$; exec sleep 0.01 >/dev/null' &); exec sleep 1000")
	orphan := k.number(t)
	require.Eventually(t, func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", orphan))
		return errors.Is(err, os.ErrNotExist)
	}, time.Minute, time.Millisecond)
	assert.False(t, gone(k.pid))
}

// TestPluginOfADeadKeeper: the kernel kills it.
func TestPluginOfADeadKeeper(t *testing.T) {
	k := script(t, "exec sleep 1000")
	require.NoError(t, k.keeper.Process.Kill())
	require.Eventually(t, func() bool { return gone(k.pid) }, time.Minute, time.Millisecond)
}
