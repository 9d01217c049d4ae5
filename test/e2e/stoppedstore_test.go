package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// openOver opens a client in this process over one transport. count returns the value of a metric.
func openOver(t *testing.T, p *pool, transport string) (c *app.Client, count func(metric string) int) {
	t.Helper()
	loaded, err := config.Load(config.Options{Role: config.RoleClient})
	require.NoError(t, err)
	cfg := loaded.Config
	cfg.Store.MasterServerAddress, cfg.Store.MetadataServer, cfg.Store.LocalHostname = p.rpc, p.meta, "127.0.0.1"
	cfg.Store.Protocol, cfg.Store.Transports = transport, []string{transport}
	cfg.Store.GlobalSegmentSize, cfg.Store.EnableHTTPServer, cfg.Store.HTTPPort = 0, true, 0
	if transport == "quic" {
		cfg.Plugins.Transport = map[string]config.Plugin{"quic": {Mode: config.ModeAuto, Required: true, Config: map[string]any{"insecure_dev": true}}}
	}
	cfg.Admin.Socket = config.SocketOff
	n, err := app.OpenNode(t.Context(), cfg, builtin.Plugins(), app.NodeOptions{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close(context.Background())) })
	return &app.Client{Store: n.Client}, func(metric string) int {
		resp, err := http.Get("http://" + n.HTTPAddress().String() + "/metrics")
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		_, rest, found := strings.Cut(string(text), "\n"+metric)
		require.True(t, found, metric)
		line, _, _ := strings.Cut(rest, "\n")
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		require.NoError(t, err)
		return int(value)
	}
}

// TestReadsLeaveAStoppedStore stops one of two stores, without ending it, while workers read objects
// that have a copy on each. Every read succeeds with the right bytes. Few of them meet the stopped
// store, however long it stands still: those in flight when it stops, and one at a time after that.
// Puts to the other store go on. The log says how long calls took.
func TestReadsLeaveAStoppedStore(t *testing.T) {
	for _, transport := range []string{"tcp", "quic", "shm"} {
		t.Run(transport, func(t *testing.T) {
			p := startPool(t, 0)
			flags := []string{"--protocol", transport, "--transports", transport}
			switch transport {
			case "shm":
				flags = append(flags, "--shared_memory", "auto")
			case "quic":
				flags = append(flags, "--set", "plugins.transport.quic.config.insecure_dev=true", "--set", "plugins.transport.quic.required=true")
			}
			stopped, _ := p.startNamed(t, 1, flags...)
			_, other := p.startNamed(t, 2, flags...)
			p.waitMounted(t, 2)
			c, count := openOver(t, p, transport)
			const objects, workers, reads = 32, 4, 2000
			how := model.DefaultReplicateConfig()
			how.ReplicaNum = 2
			key := func(i int) string { return fmt.Sprintf("copied/%d", i%objects) }
			value := func(i int) []byte { return bytes.Repeat([]byte(key(i)+";"), 2000) }
			for i := range objects {
				require.NoError(t, c.Store.Put(t.Context(), key(i), value(i), how))
			}
			for i := range 4 * objects { // Both stores are connected.
				_, err := c.Store.Get(t.Context(), key(i))
				require.NoError(t, err)
			}
			beside := startPutter(t, c, "other", 1, other)
			beside.goesOn(t, p.master, time.Time{}, 3)

			programs.Freeze(t, stopped.PID())
			t.Cleanup(func() { _ = stopped.Signal(syscall.SIGCONT) })
			at := time.Now()
			var longest, late atomic.Int64
			var work sync.WaitGroup
			for w := range workers {
				work.Go(func() {
					for i := range reads {
						begin := time.Now()
						var got []byte
						var err error
						if i%2 == 0 {
							got, err = c.Store.Get(t.Context(), key(w+i))
						} else {
							got = make([]byte, len(value(w+i)))
							half := len(got) / 2
							parts := []store.Fragment{{Offset: uint64(half), Mem: got[half:]}, {Mem: got[:half]}}
							for _, r := range c.Store.GetIntoRanges(t.Context(), []store.Ranges{{Key: key(w + i), Fragments: parts}})[0] {
								if r.Err != nil {
									err = r.Err
								}
							}
						}
						if !assert.NoError(t, err) || !assert.True(t, bytes.Equal(value(w+i), got), "wrong bytes of %s", key(w+i)) {
							return
						}
						took := time.Since(begin)
						if took > 200*time.Millisecond {
							late.Add(1)
						}
						for l := longest.Load(); int64(took) > l && !longest.CompareAndSwap(l, int64(took)); l = longest.Load() {
						}
					}
				})
			}
			work.Wait()
			took := time.Since(at)
			beside.goesOn(t, p.master, at, 20)
			beside.halt()
			left, avoided := count("mooncake_client_replica_stalls_total"), count("mooncake_client_replicas_avoided_total")
			t.Logf("%d reads in %.2f s: %d left the stopped store, %d avoided it, %d took more than 0.2 s, the longest %.2f s",
				workers*reads, took.Seconds(), left, avoided, late.Load(), time.Duration(longest.Load()).Seconds())
			t.Logf("puts to the other store: %v", beside.losses(at))
			if transport == "shm" {
				assert.Zero(t, left, "the memory of a stopped process is there")
			} else {
				assert.Positive(t, left, "no read met the stopped store")
				assert.Less(t, left, workers*reads/50, "reads go on to meet the stopped store")
				// After 5 s the master names only the other copy, so that there is nothing to avoid.
				assert.Greater(t, avoided, 10*left, "reads do not know of the stopped store")
			}
			assert.Zero(t, beside.losses(at).failed)

			require.NoError(t, stopped.Signal(syscall.SIGCONT))
			for i := range objects {
				got, err := c.Store.Get(t.Context(), key(i))
				require.NoError(t, err)
				require.Equal(t, value(i), got)
			}
		})
	}
}
