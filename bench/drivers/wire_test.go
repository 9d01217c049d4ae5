package drivers

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// peerEnv makes a test binary a peer of the bare round trips.
const peerEnv = "MOONCAKE_BENCH_TEST_PEER"

func TestMain(m *testing.M) {
	if os.Getenv(peerEnv) == "" {
		os.Exit(m.Run())
	}
	if err := WirePeer(context.Background(), os.Args[1], os.Stdin, os.Stdout); err != nil {
		panic(err)
	}
}

// wired has jobs done by Wire and two processes beside it, and returns its lines.
func wired(t *testing.T, jobs ...Job) []string {
	t.Helper()
	t.Setenv(peerEnv, "1")
	var in, out bytes.Buffer
	for _, j := range jobs {
		require.NoError(t, json.NewEncoder(&in).Encode(j))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, Wire(ctx, []string{os.Args[0]}, &in, &out))
	return strings.Split(strings.TrimSpace(out.String()), "\n")[1:]
}

func TestBareRoundTrips(t *testing.T) {
	var jobs []Job
	for _, do := range []string{Put, Get} {
		for _, size := range []int{1, 64 << 10, WireBytes} {
			jobs = append(jobs, Job{Do: do, Size: size, Count: 1, Threads: 3, Seconds: 1e-9})
		}
	}
	for i, line := range wired(t, jobs...) {
		var a Answer
		require.NoError(t, json.Unmarshal([]byte(line), &a))
		require.Equal(t, 3, a.Phases[jobs[i].Do].Calls, line)
	}
}

func TestUnknownMessages(t *testing.T) {
	lines := wired(t, Job{Do: Put, Size: 1, Count: 2, Threads: 1}, Job{Do: Get, Size: WireBytes + 1, Count: 1, Threads: 1}, Job{Do: Calls})
	for i, want := range []string{"messages of 2 objects", "1048577 bytes are not known", "no job"} {
		require.Contains(t, lines[i], want)
	}
}

func FuzzTrip(f *testing.F) {
	head := make([]byte, wireHead)
	before, _, _ := tripsOf(Put, 1)
	before.put(head)
	f.Add(head)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < wireHead {
			return
		}
		got, err := tripOf(b)
		if err != nil {
			return
		}
		again := make([]byte, wireHead)
		got.put(again)
		if got.onward != nil {
			require.Equal(t, b[:wireHead], again)
		} else {
			require.Equal(t, b[:8], again[:8])
		}
	})
}
