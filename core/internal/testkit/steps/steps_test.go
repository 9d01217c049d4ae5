//go:build linux && amd64 && !race

package steps_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/internal/testkit/steps"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const child = "MOONCAKE_TEST_STEPS_CHILD"

var (
	sum   int
	words = make([]byte, 64<<10)
	never = make(chan struct{})
)

func count(n int) {
	for i := range n {
		sum += i
	}
}

// TestChild is no test but the process whose instructions the others count.
func TestChild(t *testing.T) {
	if os.Getenv(child) == "" {
		t.Skip("the others run it")
	}
	calls := 0
	require.NoError(t, steps.Serve([]steps.Row{
		{Name: "nothing", Call: func() {}},
		{Name: "1000", Call: func() { count(1000) }},
		{Name: "2000", Call: func() { count(2000) }},
		{Name: "system", Call: func() { _ = os.Getppid() }},
		{Name: "clear", Call: func() { clear(words) }},
		{Name: "prepared", Before: func() { calls = 1000 }, Call: func() { count(calls); calls = 0 }},
		{Name: "waits", Call: func() { // for a goroutine
			wait := make(chan struct{})
			go close(wait)
			<-wait
		}},
		{Name: "stays", Call: func() { // once it is warm
			if calls++; calls > 65 {
				<-never
			}
		}},
	}))
}

func start(t *testing.T, limit time.Duration) *steps.Process {
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), child+"=1")
	p, err := steps.Start(cmd, limit)
	require.NoError(t, err)
	return p
}

func TestCount(t *testing.T) {
	p := start(t, time.Minute)
	counts := map[string]int{}
	for row, name := range p.Rows()[:6] {
		for range 3 {
			n, err := p.Count(row)
			require.NoError(t, err)
			if old, ok := counts[name]; ok {
				require.Equal(t, old, n, name)
			}
			counts[name] = n
		}
	}
	require.NoError(t, p.Close())
}

// TestCallsThatWait: a call that waits for another goroutine is refused, and the process goes on.
func TestCallsThatWait(t *testing.T) {
	p := start(t, time.Minute)
	_, err := p.Count(6)
	require.ErrorContains(t, err, "the call blocked")
	n, err := p.Count(0)
	require.NoError(t, err)
	require.Less(t, n, 10)
	require.NoError(t, p.Close())
}

// TestLimit: a call that never ends ends with its process.
func TestLimit(t *testing.T) {
	p := start(t, 2*time.Second)
	_, err := p.Count(7)
	require.ErrorContains(t, err, "has ended")
	require.Error(t, p.Close(), "it was killed")
}
