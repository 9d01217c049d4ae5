package cluster

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// burned is the processor time that a burner uses; what the kernel counts in ticks may lack one for user and system time.
const (
	burned  = 150 * time.Millisecond
	rounded = 2 * tick
)

// burn is the body of a process that uses processor time, says how much, and again after each line that it reads.
func burn() {
	own := func() time.Duration {
		t, err := clock(os.Getpid())
		if err != nil {
			os.Exit(1)
		}
		return t
	}
	for own() < burned {
	}
	fmt.Println(int64(own()))
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		fmt.Println(int64(own()))
	}
}

// pipes are the two ends of a process with lines on its input and output.
type pipes struct {
	*Proc
	in  *os.File
	out *bufio.Reader
}

// burner starts a shell script in which $BURN burns processor time.
func burner(t *testing.T, script string) pipes {
	t.Helper()
	stdin, in, err := os.Pipe()
	require.NoError(t, err)
	out, stdout, err := os.Pipe()
	require.NoError(t, err)
	p, err := Start(Spec{
		Name: "burner", Program: "/bin/sh", Args: []string{"-c", script}, Stdin: stdin, Stdout: stdout,
		Env: append(os.Environ(), "CLUSTER_TEST_BURN=1", "BURN="+os.Args[0]),
	})
	require.NoError(t, err)
	require.NoError(t, stdin.Close())
	require.NoError(t, stdout.Close())
	t.Cleanup(func() {
		p.Kill()
		in.Close()
		out.Close()
	})
	return pipes{p, in, bufio.NewReader(out)}
}

// said is the time on the next line.
func (p pipes) said(t *testing.T) time.Duration {
	t.Helper()
	line, err := p.out.ReadString('\n')
	require.NoError(t, err)
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	require.NoError(t, err)
	return time.Duration(n)
}

// The process says what it has used before it is measured and after.
func TestTheProcessorTimeOfARunningProcess(t *testing.T) {
	p := burner(t, `exec "$BURN"`)
	before := p.said(t)
	require.GreaterOrEqual(t, before, burned)
	got, err := CPUTime(p.PID())
	require.NoError(t, err)
	same, err := p.CPUTime()
	require.NoError(t, err)
	_, err = io.WriteString(p.in, "\n")
	require.NoError(t, err)
	after := p.said(t)
	require.LessOrEqual(t, before, got)
	require.LessOrEqual(t, got, same)
	require.LessOrEqual(t, same, after)
}

func TestProcessorTimeOfProcessesBelow(t *testing.T) {
	p := burner(t, `"$BURN"; exit 0`) // The shell waits for it.
	below := p.said(t)
	got, err := CPUTime(p.PID(), p.PID())
	require.NoError(t, err)
	require.GreaterOrEqual(t, got, below, "it lives")
	require.Less(t, got, 2*below, "a process that is named twice counts once")
	require.NoError(t, p.in.Close())
	code, err := p.Wait(within(t))
	require.NoError(t, err)
	require.Zero(t, code)
	got, err = p.CPUTime()
	require.NoError(t, err)
	require.GreaterOrEqual(t, got, burned-rounded, "both have ended")
}

func TestAMeterCountsAProcessThatEndsMeanwhile(t *testing.T) {
	p := burner(t, `read go; "$BURN" </dev/null; read stop`)
	m, err := StartMeter(p.PID())
	require.NoError(t, err)
	_, err = io.WriteString(p.in, "\n")
	require.NoError(t, err)
	p.said(t)
	require.NoError(t, Poll(p.Proc, 20*time.Second, func() error { // The shell has waited for it when nothing is below it.
		all, err := tree([]int{p.PID()})
		if err == nil && len(all) != 1 {
			err = fmt.Errorf("%d processes", len(all))
		}
		return err
	}))
	got, err := m.Stop()
	require.NoError(t, err)
	require.GreaterOrEqual(t, got, burned-rounded)

	m, err = StartMeter(p.PID())
	require.NoError(t, err)
	require.NoError(t, p.in.Close())
	_, err = p.Wait(within(t))
	require.NoError(t, err)
	_, err = m.Stop()
	require.ErrorContains(t, err, "it has ended", "what it used since the start is not known")
}

func TestAMeterCountsThisProcessOnce(t *testing.T) {
	before, err := clock(os.Getpid())
	require.NoError(t, err)
	m, err := StartMeter(os.Getpid())
	require.NoError(t, err)
	begun, err := clock(os.Getpid())
	require.NoError(t, err)
	for now := begun; now < begun+burned; {
		now, err = clock(os.Getpid())
		require.NoError(t, err)
	}
	got, err := m.Stop()
	require.NoError(t, err)
	after, err := clock(os.Getpid())
	require.NoError(t, err)
	require.GreaterOrEqual(t, got, burned)
	require.LessOrEqual(t, got, after-before)
}

// A program that runs the servers of several competitors measures only those that it names.
func TestAMeterLeavesOutWhatThisProcessRunsBesides(t *testing.T) {
	m, err := StartMeter()
	require.NoError(t, err)
	p := burner(t, `exec "$BURN"`)
	below := p.said(t)
	got, err := m.Stop()
	require.NoError(t, err)
	require.Less(t, got, below)
	m, err = StartMeter(os.Getpid())
	require.NoError(t, err)
	p = burner(t, `exec "$BURN"`)
	below = p.said(t)
	got, err = m.Stop()
	require.NoError(t, err)
	require.GreaterOrEqual(t, got, below)
}

func TestAMeterOfAProcessThatIsNotThere(t *testing.T) {
	p := sh(t, "exit 0")
	_, err := p.Wait(within(t))
	require.NoError(t, err)
	_, err = StartMeter(p.PID())
	require.ErrorContains(t, err, "it has ended")
}

func TestParseStat(t *testing.T) {
	s, err := parseStat("7 (a) b) S 3 7 7 0 -1 0 0 0 0 0 11 12 130 20 20 0 1 0 5 0 0\n")
	require.NoError(t, err)
	require.Equal(t, stat{parent: 3, reaped: 1500 * time.Millisecond}, s)
	for _, text := range []string{"", ")", "7 (a) S 3", "7 (a) S x 7 7 0 -1 0 0 0 0 0 11 12 130 20 20"} {
		_, err := parseStat(text)
		require.Error(t, err, "%q", text)
	}
}
