package kvevents

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/kvevents/eventstest"
	"github.com/mooncake-go/mooncake/core/model"
)

// started is a publisher on a free port; it stops with the test.
func started(t *testing.T, change func(*Config)) *Publisher {
	t.Helper()
	cfg := Config{Endpoint: "tcp://127.0.0.1:*", BackendID: "pool-a", QueueCapacity: 1000, LegacyCompat: true, ObjectKey: true}
	if change != nil {
		change(&cfg)
	}
	p, err := New(cfg)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, p.Stop(context.Background())) })
	return p
}

func subscribe(t *testing.T, p *Publisher) *eventstest.Subscriber {
	t.Helper()
	s, err := eventstest.Dial(p.Addr().Network(), p.Addr().String(), time.Now().Add(time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	require.NoError(t, s.Ping())
	return s
}

// collect reads messages until it has n events.
func collect(t *testing.T, s *eventstest.Subscriber, n int) (events []map[string]any, messages []eventstest.Message) {
	t.Helper()
	for len(events) < n {
		m, err := s.Next()
		require.NoError(t, err)
		require.NotEmpty(t, m.Events)
		require.LessOrEqual(t, len(m.Events), maxBatch)
		events, messages = append(events, m.Events...), append(messages, m)
	}
	require.Len(t, events, n)
	return events, messages
}

func TestPublishedEventsArrive(t *testing.T) {
	p := started(t, nil)
	a, b := subscribe(t, p), subscribe(t, p)
	const n = 200
	for i := range n {
		p.Stored("default", fmt.Sprint(i), "")
	}
	p.Removed("blue", "7", "g")
	for _, s := range []*eventstest.Subscriber{a, b} {
		events, messages := collect(t, s, n+1)
		for i, e := range events[:n] {
			require.Equal(t, want(encoder{backend: "pool-a", legacy: true, object: true}, int64(i+1), e["timestamp"].(int64),
				event{stored: true, tenant: "default", key: fmt.Sprint(i)}), e)
		}
		require.Equal(t, "removed", events[n]["event_type"])
		require.Equal(t, "blue", events[n]["tenant_id"])
		require.Equal(t, "g", events[n]["group_id"])
		for i, m := range messages {
			require.Equal(t, uint64(i+1), m.Sequence, "the first message is number 1, and none is missing")
			require.Zero(t, m.Rank)
			require.Equal(t, m.At, m.Events[0]["timestamp"])
		}
		require.Equal(t, uint64(len(messages)), p.Stats().Batches)
	}
	st := p.Stats()
	require.Equal(t, model.KVEventStats{Enabled: true, Batches: st.Batches, Events: n + 1, Subscribers: 2}, st)
}

// What found the queue full leaves a gap in the numbers, one for each event.
func TestDroppedEventsLeaveAGap(t *testing.T) {
	p, err := New(Config{Endpoint: "tcp://127.0.0.1:0", BackendID: "b", QueueCapacity: 10, ObjectKey: true})
	require.NoError(t, err)
	for i := range 17 {
		p.Stored("default", fmt.Sprint(i), "")
	}
	require.Equal(t, uint64(7), p.Stats().Dropped)
	ours, theirs := net.Pipe()
	p.pub.Handle(ours)
	s, err := eventstest.New(theirs, time.Now().Add(time.Minute))
	require.NoError(t, err)
	require.NoError(t, s.Subscribe(""))
	require.NoError(t, s.Ping())
	p.work.Go(p.run)
	defer func() {
		theirs.Close()
		require.NoError(t, p.Stop(context.Background()))
	}()
	m, err := s.Next()
	require.NoError(t, err)
	require.Equal(t, uint64(8), m.Sequence)
	require.Len(t, m.Events, 10)
	require.Equal(t, "7", m.Events[0]["object_key"], "the oldest made way")
	require.Equal(t, int64(1), m.Events[0]["event_id"])
	p.Stored("default", "17", "")
	m, err = s.Next()
	require.NoError(t, err)
	require.Equal(t, uint64(9), m.Sequence, "one gap for what was lost once")
}

func TestKeysThatAreNoHash(t *testing.T) {
	p := started(t, nil)
	s := subscribe(t, p)
	p.Stored("default", "model@1", "")
	p.Stored("default", "0x10", "")
	events, _ := collect(t, s, 2)
	require.Equal(t, []any{}, events[0]["seq_hashes"])
	require.Equal(t, "model@1", events[0]["object_key"])
	require.Equal(t, []any{int64(16)}, events[1]["seq_hashes"])
	require.Equal(t, uint64(1), p.Stats().Skipped)

	p = started(t, func(c *Config) { c.ObjectKey = false })
	s = subscribe(t, p)
	p.Stored("default", "model@1", "")
	p.Removed("default", "16", "")
	events, messages := collect(t, s, 1)
	require.Equal(t, "removed", events[0]["event_type"])
	require.NotContains(t, events[0], "object_key")
	require.Equal(t, uint64(1), messages[0].Sequence, "what says nothing leaves no gap")
	require.Equal(t, int64(1), events[0]["event_id"])
	st := p.Stats()
	require.Equal(t, uint64(1), st.Skipped)
	require.Equal(t, uint64(1), st.Events)
}

func TestStopPublishesWhatWaits(t *testing.T) {
	p := started(t, nil)
	s := subscribe(t, p)
	for i := range 500 {
		p.Stored("default", fmt.Sprint(i), "")
	}
	require.NoError(t, p.Stop(context.Background()))
	collect(t, s, 500)
	_, err := s.Next()
	require.Error(t, err, "then the connection ends")
	p.Stored("default", "1", "")
	require.NoError(t, p.Stop(context.Background()))
	require.Equal(t, uint64(500), p.Stats().Events)
	require.ErrorContains(t, p.Start(t.Context()), "started before")
}

func TestStopBeforeStart(t *testing.T) {
	p, err := New(Config{Endpoint: "tcp://127.0.0.1:0", BackendID: "b"})
	require.NoError(t, err)
	require.NoError(t, p.Stop(t.Context()))
	require.Nil(t, p.Addr())
}

func TestUnixSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	stale.SetUnlinkOnClose(false)
	stale.Close()
	at := func(c *Config) { c.Endpoint = "ipc://" + path }
	p := started(t, at)
	s := subscribe(t, p)
	p.Stored("default", "1", "")
	collect(t, s, 1)

	second, err := New(Config{Endpoint: "ipc://" + path, BackendID: "b"})
	require.NoError(t, err)
	require.ErrorContains(t, second.Start(t.Context()), "in use", "a living socket is not taken away")
	subscribe(t, p)

	plain := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(plain, []byte("x"), 0o600))
	third, err := New(Config{Endpoint: "ipc://" + plain, BackendID: "b"})
	require.NoError(t, err)
	require.Error(t, third.Start(t.Context()))
	require.FileExists(t, plain, "only sockets are removed")

	named := started(t, func(c *Config) { c.Endpoint = "ipc://@" + strings.ReplaceAll(path, "/", "-") })
	subscribe(t, named)
}

func TestPortInUse(t *testing.T) {
	p := started(t, nil)
	q, err := New(Config{Endpoint: "tcp://" + p.Addr().String(), BackendID: "b"})
	require.NoError(t, err)
	err = q.Start(t.Context())
	require.ErrorContains(t, err, "address already in use")
	require.NoError(t, q.Stop(t.Context()))
}

func TestQueueBound(t *testing.T) {
	for asked, want := range map[int]int{0: MaxQueue, 1: 1, 65536: 65536, MaxQueue + 1: MaxQueue, 1<<32 - 1: MaxQueue} {
		require.Equal(t, want, Config{QueueCapacity: asked}.capacity(), asked)
	}
}
