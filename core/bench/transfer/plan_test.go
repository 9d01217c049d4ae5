package transfer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// fakeTarget is the body of a process that says that it is a target, or fails to.
func fakeTarget(mode string) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	switch mode {
	case "ready":
		fmt.Println("a line of something else")
		fmt.Print(readyMark + "127.0.0.1:7 pro") // In two pieces.
		fmt.Println("tocol=tcp buffer_size=1 (1 B)")
		fmt.Println(readyMark + "127.0.0.1:8 another")
	case "fail":
		fmt.Fprintln(os.Stderr, "no such device")
		os.Exit(1)
	}
	<-stop
}

func fakeSpec(mode string) cluster.Spec {
	return cluster.Spec{Name: "target", Program: os.Args[0], Env: append(os.Environ(), "BENCH_TEST_TARGET="+mode)}
}

func TestSpawn(t *testing.T) {
	s, err := Spawn(t.Context(), fakeSpec("ready"))
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1:7", s.Segment)
	require.NoError(t, s.Close(context.Background()))
	<-s.Done()

	_, err = Spawn(t.Context(), fakeSpec("fail"))
	require.ErrorContains(t, err, "no such device")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Spawn(ctx, fakeSpec("mute"))
	require.ErrorIs(t, err, context.Canceled)
}

func TestWatcherKeepsLittle(t *testing.T) {
	w := &watcher{found: make(chan string, 1)}
	for range 100 {
		_, err := w.Write([]byte(strings.Repeat("x", 1000)))
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, len(w.line), maxAnnounce)
	_, err := w.Write([]byte("\n" + readyMark + "seg more\nrest"))
	require.NoError(t, err)
	require.Len(t, w.found, 1)
	assert.Equal(t, "seg", <-w.found)
}

func TestAnnounce(t *testing.T) {
	_, target, _ := pair(t, 4096)
	segment, ok := announced(Announce(target, "tcp"))
	assert.True(t, ok)
	assert.Equal(t, target.Segment(), segment)
	for _, line := range []string{"", "target is ready", readyMark, "x" + readyMark + "y"} {
		_, ok := announced(line)
		assert.False(t, ok, line)
	}
}

// TestPlan runs over two transports, one of them with two numbers of connections, against
// a running target.
func TestPlan(t *testing.T) {
	w := newWorld()
	far, _ := w.node(t, "127.0.0.1:100")
	target, err := NewTarget(t.Context(), far, 64<<10)
	require.NoError(t, err)
	defer func() { require.NoError(t, target.Close(context.Background())) }()
	opened, closed := []string{}, 0
	p := Plan{
		Transports: []string{LocalTransport, "tcp"}, Streams: []int{1, 2}, Loads: []Load{{transport.Write, 4096, 1, 1}},
		Segment: target.Segment(), Buffer: 64 << 10, Rounds: 1, Round: time.Millisecond, Verify: true, Limits: true,
		Open: func(_ context.Context, name string, streams int) (Node, func(context.Context) error, error) {
			opened = append(opened, fmt.Sprintf("%s/%d", name, streams))
			n, _ := w.node(t, fmt.Sprintf("127.0.0.1:%d", len(opened)))
			return n, func(context.Context) error { closed++; return nil }, nil
		},
	}
	rep, err := p.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"local/0", "tcp/1", "tcp/2"}, opened)
	assert.Equal(t, 3, closed)
	require.Len(t, rep.Results, 3)
	assert.Equal(t, "memcpy", rep.Results[0].Limit.Name)
	assert.Nil(t, rep.Results[1].Limit, "there is no server beside a target of somebody else")
	assert.Equal(t, 2, rep.Results[2].Streams)
	assert.False(t, rep.Interrupted)
	assert.Equal(t, target.Segment(), rep.Target)

	p.Open = func(context.Context, string, int) (Node, func(context.Context) error, error) {
		return Node{}, nil, errors.New("no device")
	}
	_, err = p.Run(t.Context())
	require.ErrorContains(t, err, "transport local: no device")

	ctx, cancel := context.WithCancel(t.Context())
	p.Open = func(context.Context, string, int) (Node, func(context.Context) error, error) {
		cancel()
		return Node{}, nil, ctx.Err()
	}
	rep, err = p.Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	assert.True(t, rep.Interrupted)
}
