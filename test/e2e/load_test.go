package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// load puts and gets without a pause, and compares every byte.
type load struct {
	client *app.Client
	seed   uint64

	stop    context.CancelFunc
	workers sync.WaitGroup
	done    atomic.Int64 // rounds of a put and a get

	mu     sync.Mutex
	failed []error
	wrong  int
	gone   int // objects that were evicted before they were read: all others had leases
}

const (
	loadSize    = 128 << 10
	loadWorkers = 3
)

// content returns the value of the n-th key of a load.
func (l *load) content(n int64) []byte {
	out := make([]byte, loadSize)
	r := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(l.seed)})
	_, _ = r.Read(out) // It never fails.
	return out
}

func loadKey(n int64) string { return fmt.Sprintf("load/%d", n) }

// startLoad opens a client in this process, with its transport in a process of its own, and starts
// a load. Every failure is an error unless the test says otherwise with failures.
func startLoad(t *testing.T, p *pool) *load {
	t.Helper()
	loaded, err := config.Load(config.Options{Role: config.RoleClient})
	require.NoError(t, err)
	cfg := loaded.Config
	cfg.Store.MasterServerAddress, cfg.Store.MetadataServer, cfg.Store.LocalHostname = p.rpc, p.meta, "127.0.0.1"
	cfg.Store.Protocol, cfg.Store.Transports = "tcp", []string{"tcp"}
	cfg.Plugins.Dirs = []string{bin}
	cfg.Plugins.Transport = map[string]config.Plugin{"tcp": {Mode: config.ModeSubprocess, Required: true}}
	cfg.Admin.Socket = config.SocketOn
	c, err := app.OpenClient(t.Context(), cfg, builtin.Plugins(), app.ClientOptions{Log: slog.New(slog.DiscardHandler), AllocWait: time.Minute})
	require.NoError(t, err)
	l := &load{client: c, seed: rand.Uint64()}
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	t.Cleanup(func() {
		l.halt()
		require.NoError(t, c.Close(context.Background()))
	})
	var next atomic.Int64
	for range loadWorkers {
		l.workers.Go(func() {
			for ctx.Err() == nil {
				// A round that has begun is finished: an error of the end is no finding.
				l.round(context.WithoutCancel(ctx), next.Add(1), false)
			}
		})
	}
	return l
}

// round puts an object and reads it.
func (l *load) round(ctx context.Context, n int64, pinned bool) {
	key, want := loadKey(n), l.content(n)
	how := model.DefaultReplicateConfig()
	how.HardPin = pinned
	err := l.client.Store.Put(ctx, key, want, how)
	if err != nil {
		l.fail(fmt.Errorf("%w %s: %w", errPut, key, err))
	} else if err := l.check(ctx, n, want); err != nil {
		if errs.Is(err, errs.ObjectNotFound) && !pinned {
			l.mu.Lock()
			l.gone++
			l.mu.Unlock()
		} else {
			l.fail(err)
		}
	}
	l.done.Add(1)
}

var errPut = errors.New("put")

// failedPuts are those of failures that are not reads.
func (l *load) failedPuts() []error {
	failed, _ := l.failures()
	return slices.DeleteFunc(failed, func(err error) bool { return !errors.Is(err, errPut) })
}

var errWrong = errors.New("these are not the bytes that were put")

func (l *load) check(ctx context.Context, n int64, want []byte) error {
	got, err := l.client.Store.Get(ctx, loadKey(n))
	if err == nil && !bytes.Equal(got, want) {
		l.mu.Lock()
		l.wrong++
		l.mu.Unlock()
		err = errWrong
	}
	if err != nil {
		err = fmt.Errorf("get %s: %w", loadKey(n), err)
	}
	return err
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, err)
}

// failures returns the failures until now, and how many pages were wrong.
func (l *load) failures() ([]error, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]error{}, l.failed...), l.wrong
}

// goOn waits until more rounds are done that begin from now on.
func (l *load) goOn(t *testing.T, p *pool, rounds int64) {
	t.Helper()
	want := l.done.Load() + rounds + loadWorkers
	require.NoError(t, cluster.Poll(p.master, 2*time.Minute, func() error {
		if have := l.done.Load(); have < want {
			return fmt.Errorf("%d of %d rounds", have, want)
		}
		return nil
	}))
}

func (l *load) halt() {
	l.stop()
	l.workers.Wait()
}
