package boottime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNowGoesOn(t *testing.T) {
	a := Now()
	time.Sleep(time.Millisecond)
	require.Greater(t, Now(), a)
	require.Equal(t, a+1000, a.Add(time.Microsecond))
}

// fake is a machine that sleeps between two looks at its clocks.
type fake struct {
	monotonic, asleep time.Duration
	reads             int
	between           func() // the two clocks are read
}

func (f *fake) clocks() (monotonic, boot time.Duration) {
	f.reads++
	f.monotonic += time.Microsecond
	monotonic = f.monotonic
	if f.between != nil {
		f.between()
	}
	return monotonic, f.monotonic + f.asleep
}

// wake has the wall clock jump, as it does when a machine wakes up.
func (s *sleep) wake() { s.hint.Add(int64(-time.Hour)) }

func (s *sleep) look() time.Duration { return s.slept(time.Now()) }

func TestSleepIsFound(t *testing.T) {
	f := &fake{asleep: time.Minute} // before the process began
	s := newSleep(f.clocks)
	require.Zero(t, s.look())
	f.asleep += 2 * time.Hour
	s.wake()
	require.InDelta(t, 2*time.Hour, s.look(), float64(slack))
	f.asleep += time.Second
	s.wake()
	require.InDelta(t, 2*time.Hour+time.Second, s.look(), float64(slack))
}

// TestSteppedWallClockIsNoSleep, and as long as the wall clock goes on evenly, a look makes no system call.
func TestSteppedWallClockIsNoSleep(t *testing.T) {
	f := &fake{}
	s := newSleep(f.clocks)
	s.wake()
	require.Zero(t, s.look())
	reads := f.reads
	for range 100 {
		require.Zero(t, s.look())
	}
	require.Less(t, f.reads, reads+100, "each look read the clocks")
}

// TestInterruptedReading: a process that is stopped between two readings takes that for no sleep, and
// a machine that sleeps between them is found to have slept.
func TestInterruptedReading(t *testing.T) {
	f := &fake{}
	s := newSleep(f.clocks)
	f.between = func() { f.monotonic += time.Second }
	s.wake()
	require.Zero(t, s.look())
	f.between = nil
	f.asleep = time.Hour
	require.InDelta(t, time.Hour, s.look(), float64(slack), "it measures again after a reading that says nothing")

	f.between = func() { f.asleep += time.Hour; f.between = nil }
	s.wake()
	require.InDelta(t, 2*time.Hour, s.look(), float64(slack))
}

func TestTimeIncludesSleep(t *testing.T) {
	before := Time()
	slept := Slept()
	Pretend(time.Hour)
	defer Pretend(-time.Hour)
	assert.Equal(t, slept+time.Hour, Slept())
	assert.GreaterOrEqual(t, Time().Sub(before), time.Hour)
}

func BenchmarkTime(b *testing.B) {
	for b.Loop() {
		Time()
	}
}
