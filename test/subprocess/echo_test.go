package subprocess

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// echoEnv makes the test program a child that sends every entry of one ring back on another.
const echoEnv = "MOONCAKE_TEST_ECHO"

var echoLayout = shm.Layout{Entries: 1024, EntrySize: 64}

func echoChild() error {
	conn, err := shm.NewConn(3, "test")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	buf := make([]byte, 8)
	_, fds, err := conn.Receive(ctx, buf)
	if err != nil {
		return err
	}
	mem, err := shm.Map(fds[0], shm.MapOptions{Size: 2 * echoLayout.Bytes()})
	if err != nil {
		return err
	}
	there, err := shm.BellOf(fds[1])
	if err != nil {
		return err
	}
	back, err := shm.BellOf(fds[2])
	if err != nil {
		return err
	}
	in, err := shm.NewConsumer(mem.Bytes(), echoLayout, there, 0)
	if err != nil {
		return err
	}
	out, err := shm.NewProducer(mem.Bytes()[echoLayout.Bytes():], echoLayout, back)
	if err != nil {
		return err
	}
	go func() { // The end of the host.
		_, _, _ = conn.Receive(ctx, buf)
		cancel()
	}()
	entry := make([]byte, echoLayout.EntrySize)
	for {
		n, err := in.Wait(ctx)
		if err != nil {
			return nil //nolint:nilerr // The host is gone.
		}
		for i := range n {
			in.Copy(i, entry)
			out.Put(entry)
		}
		in.Free(n)
		if err := out.Publish(); err != nil {
			return err
		}
	}
}

// bareRing is two rings and a process that sends back what it gets.
type bareRing struct {
	out *shm.Producer
	in  *shm.Consumer
}

func newBareRing(tb testing.TB) *bareRing {
	mem, err := shm.Create("test", 2*echoLayout.Bytes())
	require.NoError(tb, err)
	there, far, err := shm.NewPipeBell(true)
	require.NoError(tb, err)
	back, near, err := shm.NewPipeBell(false)
	require.NoError(tb, err)
	r := &bareRing{}
	r.out, err = shm.NewProducer(mem.Bytes(), echoLayout, there)
	require.NoError(tb, err)
	r.in, err = shm.NewConsumer(mem.Bytes()[echoLayout.Bytes():], echoLayout, back, 0)
	require.NoError(tb, err)
	conn, theirs, err := shm.Pair("test")
	require.NoError(tb, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), echoEnv+"=1")
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = os.Stderr
	require.NoError(tb, cmd.Start())
	_ = theirs.Close()
	require.NoError(tb, conn.Send(within(tb), []byte{1}, mem.FD(), far, near))
	tb.Cleanup(func() {
		_ = conn.Close()
		require.NoError(tb, cmd.Wait())
		_, _ = there.Close(), back.Close()
		_, _ = os.NewFile(uintptr(far), "").Close(), os.NewFile(uintptr(near), "").Close()
		require.NoError(tb, mem.Close())
	})
	return r
}

// round sends n entries and takes them back.
func (r *bareRing) round(tb testing.TB, ctx context.Context, n int) {
	var entry [64]byte
	for range n {
		r.out.Put(entry[:])
	}
	if err := r.out.Publish(); err != nil {
		tb.Fatal(err)
	}
	for got := 0; got < n; {
		k, err := r.in.Wait(ctx)
		if err != nil {
			tb.Fatal(err)
		}
		r.in.Free(k)
		got += k
	}
}

// latencies times f and returns the times, sorted.
func latencies(rounds int, f func()) []time.Duration {
	took := make([]time.Duration, rounds)
	for i := range took {
		at := time.Now()
		f()
		took[i] = time.Since(at)
	}
	return took
}
