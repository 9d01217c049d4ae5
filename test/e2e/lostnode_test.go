package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// startNamed starts a store and returns its process and the name of its segment.
func (p *pool) startNamed(t *testing.T, n int, flags ...string) (*cluster.Proc, string) {
	t.Helper()
	ports, err := cluster.FreePorts(1)
	require.NoError(t, err)
	segment := fmt.Sprintf("127.0.0.1:%d", ports[0])
	proc := start(t, fmt.Sprintf("store-%d", n), "mooncake", append([]string{"store", "--master_server_address", p.rpc, "--metadata_server", p.meta,
		"--local_hostname", segment, "--global_segment_size", "2GiB", "--shared_memory", "off", "--admin_socket", "off"}, flags...)...)
	p.stores = append(p.stores, proc)
	return proc, segment
}

// openTCP opens a client in this process, with the defaults and over tcp.
func openTCP(t *testing.T, p *pool) *app.Client {
	t.Helper()
	loaded, err := config.Load(config.Options{Role: config.RoleClient})
	require.NoError(t, err)
	cfg := loaded.Config
	cfg.Store.MasterServerAddress, cfg.Store.MetadataServer, cfg.Store.LocalHostname = p.rpc, p.meta, "127.0.0.1"
	cfg.Store.Protocol, cfg.Store.Transports = "tcp", []string{"tcp"}
	cfg.Admin.Socket = config.SocketOff
	c, err := app.OpenClient(t.Context(), cfg, builtin.Plugins(), app.ClientOptions{Log: slog.New(slog.DiscardHandler), AllocWait: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	return c
}

// attempt is one put.
type attempt struct {
	begin, end time.Time
	err        error
}

// putter puts objects with several workers and records every attempt.
type putter struct {
	client *app.Client
	name   string
	how    model.ReplicateConfig
	stop   atomic.Bool
	next   atomic.Int64
	work   sync.WaitGroup
	mu     sync.Mutex
	tries  []attempt
}

// putBytes is so little that a segment does not fill up within a test: a full segment would send
// every put to the lost node.
const putBytes = 128 << 10

func startPutter(t *testing.T, c *app.Client, name string, workers int, preferred ...string) *putter {
	p := &putter{client: c, name: name, how: model.DefaultReplicateConfig()}
	p.how.PreferredSegments = preferred
	for range workers {
		p.work.Go(func() {
			for !p.stop.Load() {
				p.once(context.Background())
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	t.Cleanup(p.halt)
	return p
}

// once puts one object.
func (p *putter) once(ctx context.Context) attempt {
	value := make([]byte, putBytes)
	a := attempt{begin: time.Now()}
	a.err = p.client.Store.Put(ctx, fmt.Sprintf("%s/%d", p.name, p.next.Add(1)), value, p.how)
	a.end = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tries = append(p.tries, a)
	return a
}

func (p *putter) halt() {
	p.stop.Store(true)
	p.work.Wait()
}

// since returns the attempts that ended after a time.
func (p *putter) since(at time.Time) []attempt {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []attempt
	for _, a := range p.tries {
		if a.end.After(at) {
			out = append(out, a)
		}
	}
	return out
}

// goesOn waits until n puts in a row, and all that began since a time, have succeeded after the
// last failure.
func (p *putter) goesOn(t *testing.T, master *cluster.Proc, at time.Time, n int) {
	t.Helper()
	require.NoError(t, cluster.Poll(master, 2*time.Minute, func() error {
		row := 0
		for _, a := range p.since(at) {
			if row++; a.err != nil {
				row = 0
			}
		}
		if row < n {
			return fmt.Errorf("%d of %d puts in a row have succeeded", row, n)
		}
		return nil
	}))
}

// losses describes how the puts after a moment ended.
type losses struct {
	puts, failed, timeouts int
	last                   time.Duration // from the time to the end of the last failure
	longest                time.Duration // of any put
	silence                time.Duration // the longest time in which no put succeeded
	first                  error
}

func (p *putter) losses(at time.Time) losses {
	var l losses
	success := at
	for _, a := range p.since(at) {
		l.puts++
		l.longest = max(l.longest, a.end.Sub(a.begin))
		if a.err == nil {
			l.silence = max(l.silence, a.end.Sub(success))
			success = a.end
			continue
		}
		l.failed++
		l.last = a.end.Sub(at)
		if l.first == nil {
			l.first = a.err
		}
		if timedOut(a.err) {
			l.timeouts++
		}
	}
	return l
}

func (l losses) String() string {
	return fmt.Sprintf("%d puts, %d failed, %d of them with a timeout; the last failure ended after %.2f s; the longest put took %.2f s; the longest time without a success was %.2f s; the first failure: %v",
		l.puts, l.failed, l.timeouts, l.last.Seconds(), l.longest.Seconds(), l.silence.Seconds(), l.first)
}

// timedOut reports whether an error says only that time ran out, and not what happened to the node.
func timedOut(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	for ; err != nil; err = errors.Unwrap(err) {
		if errs.Is(err, errs.RPCTimeout) {
			return true
		}
	}
	return false
}

// mostFailures bounds the puts that fail after a store was killed. Four workers put at least ten
// times a second each, a third of it to the lost node. What they learn about the node has to count
// long before the master misses the store's pings.
const mostFailures = 60

// TestKilledStoreWhilePutting kills one of three stores. The puts that fail say that the node is
// gone, and puts succeed again while the master still counts the store as mounted. The log says for
// how long puts failed.
func TestKilledStoreWhilePutting(t *testing.T) {
	p := startPool(t, 0) // The master does not drop a silent store within this test.
	for i := range 3 {
		p.startNamed(t, i+1)
	}
	p.waitMounted(t, 3)
	puts := startPutter(t, openTCP(t, p), "kill", 4)
	puts.goesOn(t, p.master, time.Time{}, 100)
	at := time.Now()
	require.NoError(t, p.stores[0].Signal(syscall.SIGKILL))
	puts.goesOn(t, p.master, at, 500)
	puts.halt()
	l := puts.losses(at)
	t.Log(l)
	p.waitMounted(t, 3)
	assert.Zero(t, l.timeouts, "puts to a node that is gone ran into a timeout")
	assert.LessOrEqual(t, l.failed, mostFailures, "a client that has met the loss still lets the master place objects on the lost node")
}

// TestStoppedStoreDelaysNoOther stops one of two stores without ending it. While a put to it is in
// flight, puts to the other store complete. The log says how long puts of either kind waited.
func TestStoppedStoreDelaysNoOther(t *testing.T) {
	p := startPool(t, 0)
	stopped, to := p.startNamed(t, 1)
	_, other := p.startNamed(t, 2)
	p.waitMounted(t, 2)
	c := openTCP(t, p)
	aimed := startPutter(t, c, "stopped", 0, to)
	beside := startPutter(t, c, "other", 0, other)
	for range 20 {
		require.NoError(t, aimed.once(t.Context()).err)
		require.NoError(t, beside.once(t.Context()).err)
	}
	programs.Freeze(t, stopped.PID())
	t.Cleanup(func() { _ = stopped.Signal(syscall.SIGCONT) })
	at := time.Now()
	pending := make(chan struct{})
	go func() { defer close(pending); aimed.once(context.Background()) }()

	// One that the master does not place by preference meets the stopped store half of the time.
	anywhere := startPutter(t, c, "anywhere", 4)
	inFlight := 0
	for range 100 {
		assert.NoError(t, beside.once(t.Context()).err)
		select {
		case <-pending:
		default:
			inFlight++
		}
	}
	<-pending
	anywhere.goesOn(t, p.master, at, 100)
	anywhere.halt()
	t.Logf("puts to the other store: %v", beside.losses(at))
	t.Logf("the put to the stopped store: %v", aimed.losses(at))
	t.Logf("puts to either: %v", anywhere.losses(at))
	assert.Positive(t, inFlight, "no put to the other store was done while the one to the stopped store was in flight")
}
