package competitors

import (
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/bench/drivers"
	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

const patience = time.Minute

// shell is a process that runs a script.
func shell(script string) cluster.Spec {
	return cluster.Spec{Name: "helper", Program: "/bin/sh", Args: []string{"-c", script}, Env: os.Environ()}
}

func startScript(t *testing.T, script string) *Driver {
	t.Helper()
	c, err := startDriver(t.Context(), shell(script), patience)
	require.NoError(t, err)
	t.Cleanup(c.close)
	return c
}

// gone reports whether there is no process of that number.
func gone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }

func TestOneAnswerForEachJob(t *testing.T) {
	c := startScript(t, `echo '{"ready":true}'; while read -r line; do echo noise; echo "{\"got\":$line}"; done`)
	for n := range 3 {
		var answer struct{ Got map[string]int }
		require.NoError(t, c.do(t.Context(), map[string]int{"n": n}, &answer))
		require.Equal(t, map[string]int{"n": n}, answer.Got)
	}
	c.close()
	require.True(t, gone(c.proc.PID()), "it ended with its input")
}

func TestAnErrorOfTheWork(t *testing.T) {
	c := startScript(t, `echo '{"ready":true}'; while read -r line; do echo '{"error":"no memory"}'; done`)
	require.EqualError(t, c.do(t.Context(), 1, &struct{}{}), "helper: no memory")
	require.EqualError(t, c.do(t.Context(), 1, &struct{}{}), "helper: no memory", "it goes on")
}

func TestAProcessThatEnds(t *testing.T) {
	c := startScript(t, `echo '{"ready":true}'; read -r line; echo "cannot go on" >&2; exit 3`)
	require.ErrorContains(t, c.do(t.Context(), 1, &struct{}{}), "helper ended")

	_, err := startDriver(t.Context(), shell("exit 1"), patience)
	require.ErrorContains(t, err, "helper ended")
}

func TestAProcessThatIsSilentIsKilled(t *testing.T) {
	c := startScript(t, `echo '{"ready":true}'; trap '' TERM; while :; do sleep 1000; done`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.do(ctx, 1, &struct{}{}), context.Canceled)
	c.close()
	require.True(t, gone(c.proc.PID()))
}

func TestAProgramThatIsNotThere(t *testing.T) {
	_, err := startDriver(t.Context(), cluster.Spec{Name: "helper", Program: "/does/not/exist"}, patience)
	require.ErrorContains(t, err, "start helper")
}

// A client counts with its master and with all that hold memory of the pool, itself once.
func TestWhatServesAClientCountsWithIt(t *testing.T) {
	spec := shell(`echo '{"ready":true}'; while read -r line; do echo "{\"phases\":{\"put\":{\"calls\":$$}}}"; echo "$line" >&2; done`)
	master, err := cluster.Start(shell("exec sleep 1000"))
	require.NoError(t, err)
	t.Cleanup(master.Kill)
	m := &Master{proc: master}
	var clients [2]*Driver
	for i, segment := range []int{1, 0} {
		s := (&Env{environ: os.Environ()}).Scope()
		t.Cleanup(s.Close)
		var err error
		clients[i], err = s.member(t.Context(), m, segment, "client", -1, nil, spec.Program, spec.Args...)
		require.NoError(t, err)
	}
	store, client := clients[0].proc.PID(), clients[1].proc.PID()
	require.ElementsMatch(t, []int{master.PID(), store}, clients[0].pids())
	require.ElementsMatch(t, []int{master.PID(), store, client}, clients[1].pids())
	_, err = clients[1].Do(t.Context(), drivers.Job{Do: drivers.Put})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strings.Contains(clients[1].proc.Tail(), strconv.Itoa(store)) }, patience, time.Millisecond, "the job names them")
}
