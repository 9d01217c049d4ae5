package cluster

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("CLUSTER_TEST_PARENT") != "" {
		parentOfSleeper()
		return
	}
	if os.Getenv("CLUSTER_TEST_BURN") != "" {
		burn()
		return
	}
	goleak.VerifyTestMain(m)
}

func sh(t *testing.T, script string) *Proc {
	t.Helper()
	p, err := Start(Spec{Name: "sh", Program: "/bin/sh", Args: []string{"-c", script}})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestExitCodeAndTail(t *testing.T) {
	p := sh(t, `for i in $(seq 100); do echo line $i >&2; done; exit 7`)
	code, err := p.Wait(within(t))
	require.NoError(t, err)
	assert.Equal(t, 7, code)
	lines := strings.Split(p.Tail(), "\n")
	assert.Len(t, lines, 40)
	assert.Equal(t, "line 100", lines[39])
}

func TestStartOfAMissingProgram(t *testing.T) {
	_, err := Start(Spec{Name: "ghost", Program: "/nonexistent"})
	assert.ErrorContains(t, err, "start ghost")
}

func TestStopEscalates(t *testing.T) {
	p := sh(t, `trap '' TERM; echo up >&2; while :; do sleep 1; done`)
	require.NoError(t, Poll(p, 20*time.Second, func() error {
		if p.Tail() == "" {
			return errors.New("not up")
		}
		return nil
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	assert.ErrorContains(t, p.Stop(ctx), "was killed")
	assert.NoError(t, sh(t, `exec sleep 60`).Stop(within(t)))
}

func TestPollReportsTheDeath(t *testing.T) {
	p := sh(t, `echo no such device >&2; exit 3`)
	err := Poll(p, 20*time.Second, func() error { return errors.New("not yet") })
	assert.ErrorContains(t, err, "exit code 3")
	assert.ErrorContains(t, err, "no such device")
}

func TestFreePortsAreDistinctAndFree(t *testing.T) {
	ports, err := FreePorts(8)
	require.NoError(t, err)
	again, err := FreePorts(8)
	require.NoError(t, err)
	first, last := quietPorts()
	seen := map[int]bool{}
	for _, p := range append(ports, again...) {
		assert.True(t, first <= p && p <= last, "%d: the kernel gives it to connections", p)
		assert.False(t, seen[p])
		seen[p] = true
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
		require.NoError(t, err)
		l.Close()
	}
}

// TestPortsAreReserved: no other process gets a port that this one may use again, not even while nothing listens on it.
func TestPortsAreReserved(t *testing.T) {
	first, _ := quietPorts()
	for range 2 * block / 8 {
		ports, err := FreePorts(8)
		require.NoError(t, err)
		for _, p := range ports {
			_, err := net.Listen("unix", "@mooncake-ports-"+strconv.Itoa(p-(p-first)%block))
			require.ErrorIs(t, err, syscall.EADDRINUSE, "port %d", p)
		}
	}
}

// parentOfSleeper is the body of a process that starts a child and waits to be killed.
func parentOfSleeper() {
	p, err := Start(Spec{Name: "child", Program: "/bin/sleep", Args: []string{"600"}})
	if err != nil {
		os.Exit(1)
	}
	os.Stdout.WriteString(strconv.Itoa(p.PID()) + "\n") //nolint:errcheck // the test notices
	select {}
}

func TestChildDiesWithAKilledParent(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CLUSTER_TEST_PARENT=1")
	cmd.Stdout = w
	require.NoError(t, cmd.Start())
	w.Close()
	buf := make([]byte, 32)
	n, err := r.Read(buf)
	require.NoError(t, err)
	r.Close()
	pid, err := strconv.Atoi(string(bytes.TrimSpace(buf[:n])))
	require.NoError(t, err)

	require.NoError(t, cmd.Process.Kill())
	cmd.Wait() //nolint:errcheck // killed
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ") || syscall.Kill(pid, 0) != nil
	}, 20*time.Second, 10*time.Millisecond, "the child outlived its parent")
}

func TestDescendant(t *testing.T) {
	p := sh(t, `sh -c 'sleep 60 & wait' & wait`)
	require.Eventually(t, func() bool {
		pid, err := Descendant(p.PID(), "sleep")
		return err == nil && pid > 0
	}, 20*time.Second, 10*time.Millisecond)
	_, err := Descendant(p.PID(), "nosuch")
	assert.ErrorContains(t, err, "there is no nosuch below process")
}
