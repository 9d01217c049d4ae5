package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// run runs checks that are called 1, 2 and so on.
func run(t *testing.T, o conformance.Options, checks ...func(conformance.T)) conformance.Report {
	t.Helper()
	return runIn(t.Context(), t, o, checks...)
}

func runIn(ctx context.Context, t *testing.T, o conformance.Options, checks ...func(conformance.T)) conformance.Report {
	t.Helper()
	s := suite()
	s.Cases = nil
	for i, f := range checks {
		s.Cases = append(s.Cases, conformance.Case{Name: fmt.Sprint(i + 1), Rule: "A rule.", Run: f})
	}
	r, err := conformance.Run(ctx, s, o)
	require.NoError(t, err)
	require.Len(t, r.Checks, len(checks))
	return r
}

// TestCheckResult checks that the report has exactly one correct result for a check, however the
// check ends.
func TestCheckResult(t *testing.T) {
	for name, c := range map[string]struct {
		run     func(conformance.T)
		status  conformance.Status
		message string
		log     string
	}{
		"log":         {func(c conformance.T) { c.Log("a", 1); c.Logf("b%d", 2) }, conformance.Pass, "", "a 1\nb2\n"},
		"error":       {func(c conformance.T) { c.Error("a", 1); c.Log("on") }, conformance.Fail, "a 1", "a 1\non\n"},
		"fatal":       {func(c conformance.T) { c.Fatal("a", 1); c.Log("on") }, conformance.Fail, "a 1", "a 1\n"},
		"fatalf":      {func(c conformance.T) { c.Fatalf("a%d", 1); c.Log("on") }, conformance.Fail, "a1", "a1\n"},
		"fail":        {func(c conformance.T) { c.Fail(); c.Log("on") }, conformance.Fail, "", "on\n"},
		"fail now":    {func(c conformance.T) { c.FailNow(); c.Log("on") }, conformance.Fail, "", ""},
		"skip":        {func(c conformance.T) { c.Skip("a", 1); c.Log("on") }, conformance.Skip, "a 1", "a 1\n"},
		"skipf":       {func(c conformance.T) { c.Skipf("a%d", 1); c.Log("on") }, conformance.Skip, "a1", "a1\n"},
		"skip now":    {func(c conformance.T) { c.SkipNow(); c.Log("on") }, conformance.Skip, "", ""},
		"fail, skip":  {func(c conformance.T) { c.Error("a"); c.SkipNow() }, conformance.Fail, "a", "a\n"},
		"clean-up":    {func(c conformance.T) { c.Cleanup(func() { c.Error("late") }) }, conformance.Fail, "late", "late\n"},
		"skip, error": {func(c conformance.T) { c.Cleanup(func() { c.Error("late") }); c.SkipNow() }, conformance.Fail, "late", "late\n"},
		"more to do":  {func(c conformance.T) { c.Cleanup(func() { c.Cleanup(func() { c.Log("last") }); c.Log("first") }) }, conformance.Pass, "", "first\nlast\n"},
		"fatal after": {func(c conformance.T) { c.Cleanup(func() { c.Log("all the same") }); c.Cleanup(func() { c.Fatal("a") }) }, conformance.Fail, "a", "a\nall the same\n"},
		"part":        {func(c conformance.T) { c.Run("in", func(c conformance.T) { c.Log(c.Name()) }) }, conformance.Pass, "", "in:\n1/in\n"},
		"silent part": {func(c conformance.T) { c.Run("in", func(conformance.T) {}) }, conformance.Pass, "", ""},
		"part skips":  {func(c conformance.T) { c.Run("in", func(c conformance.T) { c.Skip("why") }) }, conformance.Pass, "", "in: skipped: why\n"},
		"part fails":  {func(c conformance.T) { c.Run("in", func(c conformance.T) { c.Fatal("why") }); c.Log("on") }, conformance.Fail, "in: why", "in:\nwhy\non\n"},
		"parts fail":  {func(c conformance.T) { c.Error("first"); c.Run("in", func(c conformance.T) { c.Error("why") }) }, conformance.Fail, "first", "first\nin:\nwhy\n"},
		"part of part": {func(c conformance.T) {
			c.Run("in", func(c conformance.T) { c.Run("in", func(c conformance.T) { c.Error("why") }) })
		}, conformance.Fail, "in: in: why", "in:\nin:\nwhy\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, conformance.Options{}, c.run).Checks[0]
			require.Equal(t, []any{c.status, c.message, c.log}, []any{got.Status, got.Message, got.Log})
		})
	}
}

// TestWhatACheckSeesOfItself is of the answers of T.
func TestWhatACheckSeesOfItself(t *testing.T) {
	var dir string
	r := run(t, conformance.Options{}, func(c conformance.T) {
		c.Helper()
		require.Equal(t, "1", c.Name())
		require.False(t, c.Failed())
		require.False(t, c.Skipped())
		require.NoError(t, c.Context().Err())
		require.True(t, c.Run("good", func(conformance.T) {}))
		require.True(t, c.Run("skips", func(c conformance.T) {
			c.Cleanup(func() { require.True(t, c.Skipped()) })
			c.SkipNow()
		}))
		require.False(t, c.Failed())
		require.False(t, c.Run("bad", func(c conformance.T) {
			conformance.AddFigure(c, "of a part", 1, "s")
			c.Fail()
			require.True(t, c.Failed())
		}))
		require.True(t, c.Failed())
		c.Cleanup(func() {
			require.ErrorIs(t, c.Context().Err(), context.Canceled, "it ends before what is cleaned up")
			require.NoDirExists(t, dir, "the latest is first")
		})
		dir = c.TempDir()
		require.NotEqual(t, dir, c.TempDir())
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	}, func(c conformance.T) {
		require.Equal(t, "2", c.Name())
		panic(errors.New("out of order"))
	})
	require.NoDirExists(t, dir)
	require.Equal(t, conformance.Fail, r.Checks[0].Status)
	require.Equal(t, []conformance.Figure{{Check: "1/bad", Name: "of a part", Value: 1, Unit: "s"}}, r.Figures)
	require.Contains(t, r.Checks[1].Detail, "check_test.go", "the stack says where")
}

// TestWhatComesTooLate: a check that left a goroutine behind changes no result.
func TestWhatComesTooLate(t *testing.T) {
	var kept conformance.T
	r := run(t, conformance.Options{}, func(c conformance.T) { kept = c })
	done := make(chan struct{})
	go func() {
		defer close(done)
		kept.Error("late")
		kept.Fail()
		conformance.AddFigure(kept, "late", 1, "s")
		kept.Skip("late")
	}()
	<-done
	require.Equal(t, []bool{false, false}, []bool{kept.Failed(), kept.Skipped()})
	require.Equal(t, conformance.Check{Name: "1", Rule: "A rule.", Status: conformance.Pass, Seconds: r.Checks[0].Seconds}, r.Checks[0])
	require.Empty(t, r.Figures)
}

// TestLogsAreBounded: one that talks without end fills neither memory nor the report.
func TestLogsAreBounded(t *testing.T) {
	line := strings.Repeat("x", 1023)
	r := run(t, conformance.Options{}, func(c conformance.T) {
		for range 64 {
			c.Log(line)
		}
	}, func(c conformance.T) {
		for range 80 {
			c.Log(line)
		}
		c.Error("and it fails")
	})
	require.Equal(t, strings.Repeat(line+"\n", 64), r.Checks[0].Log, "64 KiB are kept")
	require.Equal(t, strings.Repeat(line+"\n", 64)+"... the rest of the log is left out\n", r.Checks[1].Log)
	require.Equal(t, "and it fails", r.Checks[1].Message)
}

func waitForTheEnd(c conformance.T) { <-c.Context().Done() }

// TestChecksThatDoNotEnd: each is bounded, the others after three of them by less.
func TestChecksThatDoNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, left := make(chan struct{}), make(chan conformance.T, 10)
		began := time.Now()
		never := func(c conformance.T) {
			left <- c
			<-release
			c.Error("too late")
			c.Fail()
			conformance.AddFigure(c, "too late", 1, "s")
		}
		polite := func(c conformance.T) { waitForTheEnd(c); c.Log("it ended") }
		var progress []string
		o := conformance.Options{Progress: func(c conformance.Check) { progress = append(progress, c.Name+" "+string(c.Status)) }}
		r := run(t, o, polite, never, never, polite, never, polite, func(conformance.T) {})
		require.Equal(t, []string{"1 fail", "2 fail", "3 fail", "4 fail", "5 fail", "6 fail", "7 pass"}, progress)
		require.Equal(t, 5*conformance.DefaultLimit+4*10*time.Second, time.Since(began))
		require.InDelta(t, 640, r.Seconds, 0.001)
		require.InDelta(t, 120, r.Checks[0].Seconds, 0.001)
		require.InDelta(t, 130, r.Checks[1].Seconds, 0.001)
		require.Contains(t, r.Checks[0].Detail, "waitForTheEnd", "the stacks say where it hangs")
		require.Contains(t, r.Checks[0].Log, "it ended")
		require.NotContains(t, r.Checks[0].Log, "left behind")
		require.Contains(t, r.Checks[1].Log, "left behind")
		for _, i := range []int{0, 1} {
			require.Equal(t, "it did not end within 2m0s", r.Checks[i].Message)
		}
		require.Equal(t, "it did not end within 10s", r.Checks[5].Message)
		close(release)
		synctest.Wait()
		require.Len(t, left, 3)
		require.Empty(t, r.Figures)
		require.NotContains(t, r.Checks[1].Log, "too late")
	})
}

// TestCallsThatDoNotReturn: the check fails and names the call, and the next one runs. A call that
// returns in time, or that is one of a part, is told apart.
func TestCallsThatDoNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		says := func(text string) func() string { return func() string { return text } }
		r := run(t, conformance.Options{Patience: 3 * time.Second}, func(c conformance.T) {
			conformance.Call(c, says("Dial"))()
			defer conformance.Call(c, says("Submit of operation 17"))()
			waitForTheEnd(c)
		}, func(c conformance.T) {
			c.Run("part", func(c conformance.T) {
				defer conformance.Call(c, says("Stop"))()
				conformance.Call(c, says("Reap"))
				waitForTheEnd(c)
			})
		}, func(c conformance.T) {
			defer conformance.Call(c, says("Close"))()
			time.Sleep(conformance.Patience(c))
		})
		require.Equal(t, "Submit of operation 17 has not returned for 4s", r.Checks[0].Message[:46])
		require.Contains(t, r.Checks[1].Message, "Stop has not returned for 4")
		require.Contains(t, r.Checks[1].Message, "; 1 more calls hang as well")
		require.Equal(t, []conformance.Status{"fail", "fail", "pass"}, []conformance.Status{r.Checks[0].Status, r.Checks[1].Status, r.Checks[2].Status})
		require.False(t, r.Checks[0].Hung, "it names the call")
		require.Less(t, time.Since(began), 15*time.Second)
	})
}

// TestARunThatIsEnded: the check that runs fails, and the rest is skipped with the reason.
func TestARunThatIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("it takes too long"))
		defer cancel()
		r := runIn(ctx, t, conformance.Options{}, func(conformance.T) {}, func(c conformance.T) { <-c.Context().Done() }, func(conformance.T) {})
		require.Equal(t, []conformance.Status{"pass", "fail", "skip"}, []conformance.Status{r.Checks[0].Status, r.Checks[1].Status, r.Checks[2].Status})
		require.Equal(t, "the run was ended while it ran: it takes too long", r.Checks[1].Message)
		require.Equal(t, "the run was ended: it takes too long", r.Checks[2].Message)
	})
}

// TestWhatIsVital: where that fails nothing else is tried; what failed before does not matter.
func TestWhatIsVital(t *testing.T) {
	nothing := func(conformance.T) {}
	s := suite()
	s.Cases = []conformance.Case{
		{Name: "bad", Run: func(c conformance.T) { c.Fail() }}, {Name: "good", Vital: true, Run: nothing}, {Name: "next", Run: nothing},
		{Name: "start", Vital: true, Run: func(c conformance.T) { c.Error("it does not start") }},
		{Name: "rest", Run: nothing}, {Name: "left out", Skip: "cannot hold", Run: nothing},
	}
	r, err := conformance.Run(t.Context(), s, conformance.Options{})
	require.NoError(t, err)
	var got []conformance.Status
	for _, c := range r.Checks {
		got = append(got, c.Status)
	}
	require.Equal(t, []conformance.Status{"fail", "pass", "pass", "fail", "skip", "skip"}, got)
	require.Contains(t, r.Checks[4].Message, `"start" failed`)
	require.Equal(t, "cannot hold", r.Checks[5].Message)
}

// TestWhatCannotBeChosen says what is wrong with a pattern.
func TestWhatCannotBeChosen(t *testing.T) {
	for o, says := range map[*conformance.Options]string{
		{Run: "("}: "not a regular expression", {Skip: "("}: "not a regular expression",
		{Run: "none", Skip: "nor this"}: `no check of the suite evict matches "none" without "nor this"`, {Skip: "."}: "no check",
	} {
		_, err := conformance.Run(t.Context(), suite(), *o)
		require.ErrorIs(t, err, errs.InvalidParams.Err())
		require.ErrorContains(t, err, says)
	}
}
