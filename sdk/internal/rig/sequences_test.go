package rig_test

import (
	"context"
	"flag"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
)

func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	m.Run()
}

// message runs one check, and returns what the report says about it.
func message(t *testing.T, f func(conformance.T)) conformance.Check {
	t.Helper()
	r, err := conformance.Run(context.Background(), conformance.Suite{Name: "x", Cases: []conformance.Case{{Name: "c", Run: f}}}, conformance.Options{})
	require.NoError(t, err)
	return r.Checks[0]
}

// TestASequenceThatFailsIsReportedAsCalls: the shortest one, without a word of the tool that found it.
func TestASequenceThatFailsIsReportedAsCalls(t *testing.T) {
	c := message(t, func(t conformance.T) {
		rig.Sequences(t, func(rt *rapid.T, s *rig.Sequence) {
			sum := 0
			rt.Repeat(map[string]func(*rapid.T){
				"add": func(rt *rapid.T) {
					n := rapid.IntRange(0, 100).Draw(rt, "n")
					sum += n
					s.Note("add %d", n)
				},
				"": func(*rapid.T) { require.Less(s, sum, 150, "the sum is %d", sum) },
			})
		})
	})
	require.Equal(t, conformance.Fail, c.Status)
	assert.Contains(t, c.Message, "the sum is 150\nafter the calls\nadd ")
	assert.NotContains(t, c.Log, "rapid")
	assert.NotContains(t, c.Log, "goroutine")
}

func TestASequenceThatHolds(t *testing.T) {
	c := message(t, func(t conformance.T) {
		rig.Sequences(t, func(rt *rapid.T, s *rig.Sequence) { s.Note("%d", rapid.Int().Draw(rt, "n")) })
	})
	require.Equal(t, conformance.Pass, c.Status, c.Log)
	require.Empty(t, c.Log)
}

func TestAPanicOfASequenceIsAFailure(t *testing.T) {
	c := message(t, func(t conformance.T) {
		rig.Sequences(t, func(*rapid.T, *rig.Sequence) { panic("it fell over") })
	})
	require.Equal(t, conformance.Fail, c.Status)
	require.Contains(t, c.Message, "it fell over")
}

// TestACallThatHangsIsNamed: the check goes on without it.
func TestACallThatHangsIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		c := message(t, func(t conformance.T) {
			rig.Within(t, time.Minute, func() string { return "Propose of 3 victims" }, func() { <-end })
		})
		close(end)
		require.Equal(t, conformance.Fail, c.Status)
		require.Equal(t, "Propose of 3 victims has not returned after 1m0s", c.Message)
	})
}
