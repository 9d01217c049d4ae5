package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/master/kvevents/eventstest"
)

// kvStatus is the answer of /kv_events/status.
type kvStatus struct {
	Enabled bool   `json:"enabled"`
	Batches uint64 `json:"published_batches"`
	Events  uint64 `json:"published_events"`
	Dropped uint64 `json:"dropped_events"`
	Skipped uint64 `json:"skipped_unparsed_keys"`
}

func (p *pool) kvStatus(t *testing.T) kvStatus {
	t.Helper()
	text, err := p.get(t, "/kv_events/status")
	require.NoError(t, err)
	return decode[kvStatus](t, text)
}

// follow reads events until there are n.
func follow(t *testing.T, s *eventstest.Subscriber, n int) (events []map[string]any) {
	t.Helper()
	for len(events) < n {
		m, err := s.Next()
		require.NoError(t, err)
		events = append(events, m.Events...)
	}
	return events
}

func TestKVEvents(t *testing.T) {
	ports, err := cluster.FreePorts(1)
	require.NoError(t, err)
	at := fmt.Sprintf("127.0.0.1:%d", ports[0])
	for name, c := range map[string]struct{ endpoint, network, address string }{
		"tcp": {fmt.Sprintf("tcp://*:%d", ports[0]), "tcp", at},
		"ipc": {"", "unix", filepath.Join(t.TempDir(), "events")},
	} {
		if c.endpoint == "" {
			c.endpoint = "ipc://" + c.address
		}
		t.Run(name, func(t *testing.T) {
			p := startPool(t, 1, append(killable[:len(killable):len(killable)], "--enable_kv_events", "--kv_events_bind_endpoint", c.endpoint, "--kv_events_backend_id", "pool-a")...)
			require.Equal(t, kvStatus{Enabled: true}, p.kvStatus(t))
			s, err := eventstest.Dial(c.network, c.address, time.Now().Add(time.Minute))
			require.NoError(t, err)
			defer s.Close()
			require.NoError(t, s.Ping())

			for _, key := range []string{"0xfedcba9876543210", "42", "model@7"} {
				r := p.client(t, "", "put", key, "--value", "x")
				require.Equal(t, 0, r.Code, r.Stderr)
			}
			require.Equal(t, 0, p.client(t, "", "remove", "42", "--force").Code)
			require.Equal(t, 0, p.client(t, "", "remove", "--all", "--force").Code)
			events := follow(t, s, 6)
			seen := map[string]string{}
			for i, e := range events {
				require.Equal(t, int64(i+1), e["event_id"])
				assert.Equal(t, "pool-a", e["backend_id"])
				assert.Equal(t, "default", e["tenant_id"])
				assert.Equal(t, "cpu", e["medium"])
				seen[e["object_key"].(string)] += " " + e["event_type"].(string)
			}
			assert.Equal(t, map[string]string{"0xfedcba9876543210": " stored removed", "42": " stored removed", "model@7": " stored removed"}, seen)
			assert.Equal(t, []any{uint64(0xfedcba9876543210)}, events[0]["seq_hashes"])
			assert.Equal(t, "BlockStored", events[0]["type"])
			assert.Equal(t, []any{}, events[2]["seq_hashes"])
			st := p.kvStatus(t)
			assert.Equal(t, kvStatus{Enabled: true, Batches: st.Batches, Events: 6, Skipped: 2}, st)

			// A node that dies takes its objects with it.
			require.Equal(t, 0, p.client(t, "", "put", "7", "--value", "x").Code)
			p.stores[0].Kill()
			events = follow(t, s, 2)
			assert.Equal(t, "removed", events[1]["event_type"])
			assert.Equal(t, "7", events[1]["object_key"])

			require.NoError(t, p.master.Signal(syscall.SIGTERM))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			code, err := p.master.Wait(ctx)
			require.NoError(t, err)
			assert.Zero(t, code)
		})
	}
}

// Without the settings nothing is published and the status says so.
func TestKVEventsAreOffByDefault(t *testing.T) {
	p := startPool(t, 0)
	text, err := p.get(t, "/kv_events/status")
	require.NoError(t, err)
	require.True(t, json.Valid([]byte(text)))
	assert.Equal(t, kvStatus{}, p.kvStatus(t))
}
