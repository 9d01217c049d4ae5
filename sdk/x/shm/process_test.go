package shm

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The child of these tests reads numbers from one ring and writes them back on another.
const childEnv = "SHM_TEST_CHILD"

// slowPipe is the bell of a child that answers only after its host has gone to sleep.
const slowPipe = "slow pipe"

var echo = Layout{Entries: 1024, EntrySize: 64}

func TestMain(m *testing.M) {
	if kind := os.Getenv(childEnv); kind != "" {
		if err := echoChild(kind); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func echoChild(kind string) error {
	conn, err := NewConn(3, "test")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	buf := make([]byte, 64)
	n, fds, err := conn.Receive(ctx, buf)
	if err != nil {
		return err
	}
	mem, err := Map(fds[0], MapOptions{Size: 2 * echo.Bytes()})
	if err != nil {
		return err
	}
	spins, _ := strconv.Atoi(string(buf[:n]))
	there, back := bells(kind, fds[1:])
	in, err := NewConsumer(mem.Bytes(), echo, there, spins)
	if err != nil {
		return err
	}
	out, err := NewProducer(mem.Bytes()[echo.Bytes():], echo, back)
	if err != nil {
		return err
	}
	go func() { // The lifeline.
		_, _, _ = conn.Receive(ctx, buf)
		cancel()
	}()
	entry := make([]byte, echo.EntrySize)
	for {
		n, err := in.Wait(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if kind == slowPipe {
			time.Sleep(100 * time.Microsecond)
		}
		if err != nil {
			return err
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

func bells(kind string, fds []int) (there, back Bell) {
	if kind == "futex" {
		return &futexBell{}, &futexBell{}
	}
	a, _ := BellOf(fds[0])
	b, _ := BellOf(fds[1])
	return a, b
}

// peer is the side of the parent process.
type peer struct {
	out  *Producer
	in   *Consumer
	conn *Conn
	cmd  *exec.Cmd
}

func startEcho(tb testing.TB, kind string, spins int) *peer {
	tb.Helper()
	mem, err := Create("shm-test", 2*echo.Bytes())
	require.NoError(tb, err)
	var there, back Bell
	fds := []int{mem.FD()}
	if kind == "futex" {
		there, back = &futexBell{}, &futexBell{}
	} else if kind == "pipe" || kind == slowPipe {
		a, far, err := NewPipeBell(true)
		require.NoError(tb, err)
		b, near, err := NewPipeBell(false)
		require.NoError(tb, err)
		there, back = a, b
		fds = append(fds, far, near)
		defer closeFDs([]int{far, near})
	} else {
		a, err := NewEventBell()
		require.NoError(tb, err)
		b, err := NewEventBell()
		require.NoError(tb, err)
		there, back = a, b
		fds = append(fds, a.FD(), b.FD())
	}
	p := &peer{}
	p.out, err = NewProducer(mem.Bytes(), echo, there)
	require.NoError(tb, err)
	p.in, err = NewConsumer(mem.Bytes()[echo.Bytes():], echo, back, spins)
	require.NoError(tb, err)
	conn, theirs, err := Pair("test")
	require.NoError(tb, err)
	p.conn = conn
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), childEnv+"="+kind)
	p.cmd.ExtraFiles = []*os.File{theirs}
	p.cmd.Stderr = os.Stderr
	require.NoError(tb, p.cmd.Start())
	theirs.Close()
	require.NoError(tb, conn.Send(tb.Context(), []byte(strconv.Itoa(spins)), fds...))
	tb.Cleanup(func() {
		conn.Close()
		require.NoError(tb, p.cmd.Wait())
		there.Close()
		back.Close()
		require.NoError(tb, mem.Close())
	})
	return p
}

func BenchmarkRing(b *testing.B) {
	for _, kind := range []string{"eventfd", "pipe", "futex"} {
		for _, spins := range []int{0, 1000} {
			for _, depth := range []int{1, 32} {
				b.Run(fmt.Sprintf("%s/spins=%d/depth=%d", kind, spins, depth), func(b *testing.B) {
					p := startEcho(b, kind, spins)
					ctx, cancel := context.WithCancel(b.Context())
					defer cancel()
					entry := make([]byte, echo.EntrySize)
					took := make([]time.Duration, 0, b.N)
					flight := 0
					b.ReportAllocs()
					b.ResetTimer()
					for sent, got := 0, 0; got < b.N; {
						at := time.Now()
						for flight < depth && sent < b.N {
							binary.NativeEndian.PutUint64(entry, uint64(sent))
							p.out.Put(entry)
							sent++
							flight++
						}
						require.NoError(b, p.out.Publish())
						n, err := p.in.Wait(ctx)
						require.NoError(b, err)
						for i := range n {
							p.in.Copy(i, entry)
							if binary.NativeEndian.Uint64(entry) != uint64(got) {
								b.Fatal("out of order")
							}
							got++
						}
						p.in.Free(n)
						flight -= n
						took = append(took, time.Since(at))
					}
					b.StopTimer()
					slices.Sort(took)
					b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
					b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
				})
			}
		}
	}
}
