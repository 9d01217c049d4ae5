package pluginhost

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// lingering is a process that was collected while another process still holds its log open, until
// Close.
type lingering struct {
	*puppet
	reaped  chan struct{}
	inStart bool
	closes  atomic.Int32
}

func (l *lingering) Reaped() <-chan struct{}     { return l.reaped }
func (l *lingering) Close(context.Context) error { l.closes.Add(1); l.puppet.Kill(); return nil }
func (l *lingering) Object() evict.Policy        { return l }
func (l *lingering) Start(context.Context, plugin.Host) error {
	if l.inStart {
		close(l.reaped)
	}
	return nil
}

func lingeringStage(l *lingering) *supervisor[evict.Policy] {
	s := newSupervisor[evict.Policy](faultyEvict, "/x", Supervision{}, slog.New(slog.DiscardHandler))
	s.launch = func(context.Context, *slog.Logger) (process[evict.Policy], error) { return l, nil }
	return s
}

func newLingering(inStart bool) *lingering {
	return &lingering{puppet: &puppet{nr: 1, done: make(chan struct{})}, reaped: make(chan struct{}), inStart: inStart}
}

// TestStopAfterAnUnnoticedExit: Stop frees the rest of a process that the loop has not closed.
func TestStopAfterAnUnnoticedExit(t *testing.T) {
	l := newLingering(false)
	s := lingeringStage(l)
	require.NoError(t, s.Start(t.Context(), nil))
	close(l.reaped)
	eventually(t, "it is out of use", func() bool { return s.current.Load() == nil })
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(context.Background()) }()
	select {
	case err := <-stopped:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("stop waits for a process that is never closed")
	}
	assert.EqualValues(t, 1, l.closes.Load())
}

// counter counts the calls that a supervisor makes to its carrier.
type counter struct {
	carrier[evict.Policy]
	begun, ends atomic.Int32
}

func (c *counter) begin(*running[evict.Policy])                         { c.begun.Add(1) }
func (c *counter) enroll(context.Context, *running[evict.Policy]) error { return nil }
func (c *counter) use(*running[evict.Policy])                           {}
func (c *counter) lost(*running[evict.Policy])                          {}
func (c *counter) close()                                               {}
func (c *counter) ended(*running[evict.Policy]) {
	if c.begun.Load() > 0 { // Else there is no generation to end.
		c.ends.Add(1)
	}
}

// TestAGenerationOfADeadProcessEnds: the process died before its generation began, so collect
// found no generation to end.
func TestAGenerationOfADeadProcessEnds(t *testing.T) {
	l := newLingering(true)
	s, c := lingeringStage(l), &counter{}
	s.carry = late{c, l.reaped, s}
	require.NoError(t, s.Start(t.Context(), nil))
	eventually(t, "its generation ends, although its log is still open", func() bool { return c.ends.Load() > 0 })
	require.NoError(t, s.Stop(context.Background()))
}

// late begins a generation after the process was collected.
type late struct {
	*counter
	reaped chan struct{}
	s      *supervisor[evict.Policy]
}

func (c late) begin(r *running[evict.Policy]) {
	<-c.reaped
	time.Sleep(20 * time.Millisecond) // Let collect run first.
	c.counter.begin(r)
}
