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

// lingering is a process that was collected while somebody still holds its log open, until it
// is closed.
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
	s := newSupervisor[evict.Policy](moodyEvict, "/x", Supervision{}, slog.New(slog.DiscardHandler))
	s.launch = func(context.Context, *slog.Logger) (process[evict.Policy], error) { return l, nil }
	return s
}

func newLingering(inStart bool) *lingering {
	return &lingering{puppet: &puppet{nr: 1, done: make(chan struct{})}, reaped: make(chan struct{}), inStart: inStart}
}

// TestStopAfterADeathThatNobodyNoticed: what is left of the process is freed.
func TestStopAfterADeathThatNobodyNoticed(t *testing.T) {
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
		t.Fatal("it waits for a process that nobody closes")
	}
	assert.EqualValues(t, 1, l.closes.Load())
}

// lives counts what a supervisor tells its carrier.
type lives struct {
	carrier[evict.Policy]
	begun, ends atomic.Int32
}

func (c *lives) begin(*running[evict.Policy])                         { c.begun.Add(1) }
func (c *lives) enroll(context.Context, *running[evict.Policy]) error { return nil }
func (c *lives) use(*running[evict.Policy])                           {}
func (c *lives) lost(*running[evict.Policy])                          {}
func (c *lives) close()                                               {}
func (c *lives) ended(*running[evict.Policy]) {
	if c.begun.Load() > 0 { // Else there is no life to end.
		c.ends.Add(1)
	}
}

// TestALifeBegunByTheDeadEnds: the process died before its life began, and whoever collected
// it found none.
func TestALifeBegunByTheDeadEnds(t *testing.T) {
	l := newLingering(true)
	s, c := lingeringStage(l), &lives{}
	s.carry = late{c, l.reaped, s}
	require.NoError(t, s.Start(t.Context(), nil))
	eventually(t, "its life ends, although its log is still open", func() bool { return c.ends.Load() > 0 })
	require.NoError(t, s.Stop(context.Background()))
}

// late begins a life when the process was collected.
type late struct {
	*lives
	reaped chan struct{}
	s      *supervisor[evict.Policy]
}

func (c late) begin(r *running[evict.Policy]) {
	<-c.reaped
	time.Sleep(20 * time.Millisecond) // For who collects it, who comes first then.
	c.lives.begin(r)
}
