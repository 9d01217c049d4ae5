package kitscore_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/test/kitscore"
	"github.com/mooncake-go/mooncake/test/kitscore/transports"
)

var update = flag.Bool("update", false, "write the golden files")

func kinds() []kitscore.Kind { return []kitscore.Kind{transports.Kind()} }

// TestMain carries out the runs that Apart starts.
func TestMain(m *testing.M) {
	flag.Parse() // Property checks ask for the flags.
	if child, err := kitscore.Child(context.Background(), kinds()); child || err != nil {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestEachBugIsFoundBySomething: names and checks of the bugs exist, so that a renamed check does not hide a bug.
func TestEachBugIsFoundBySomething(t *testing.T) {
	for _, k := range kinds() {
		var checks []string
		for _, c := range k.Suite("").Cases {
			checks = append(checks, c.Name)
		}
		for _, b := range k.Bugs {
			require.NotEmpty(t, b.Wrong, b.Name)
			require.NotEmpty(t, b.Finds, b.Name)
			for _, c := range b.Finds {
				require.True(t, slices.Contains(checks, c), "bug %s: there is no check %q", b.Name, c)
			}
		}
	}
}

// TestAFewBugs scores some bugs as make kit-score does with all of them: one of the race between a status and the bytes, one
// against which the host keeps the rule, and two that only host and sdk notice on a program.
func TestAFewBugs(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts programs")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // The rules of trust need no more than this.
	t.Chdir(filepath.Join("..", ".."))
	require.NoError(t, kitscore.Build(t.Context(), dir, kinds()))
	base := kitscore.Run{Dir: dir, Limit: time.Minute, Patience: 8 * time.Second}
	some := regexp.MustCompile("^transport/(doubt-is-failed|no-back-pressure|close-drops)$")
	verdicts, err := kitscore.Score(t.Context(), kinds(), some, base, false, func(kitscore.Verdict) {})
	require.NoError(t, err)
	require.Len(t, verdicts, 3)
	require.Empty(t, kitscore.Missed(verdicts))
	require.Equal(t, []kitscore.Sum{{Kind: "transport", Bugs: 3, Binary: 2, InProcess: 3}}, kitscore.Sums(verdicts))
	correct := base
	correct.Kind, correct.Mode, correct.Checks = "transport", kitscore.Binary, []string{"content of many kinds", "an indeterminate operation", "settings"}
	report, err := correct.Apart(t.Context())
	require.NoError(t, err)
	require.False(t, report.Failed(), "%+v", report.Checks)
}

// ofRandomCalls is what a person may read who has a bug that a random sequence of calls finds.
var ofRandomCalls = regexp.MustCompile(`^Submit of operation \d+ \((read|write) \d+ at \d+\)( and \d+ more)? says that it accepted \d+ of \d+ operations; the count must be from 0 to \d+$|` +
	`\b\d+ of \d+ completions are missing: operation \d+ \((read|write) \d+ at \d+\)|` +
	`^a completion came for operation \d+, which is not in flight$`)

// numbers are what differs from run to run in a message.
var numbers = regexp.MustCompile(`127\.0\.0\.1:\d+|\d+(\.\d+)?(ms|s)\b`)

// inFlight are the numbers of the operation that a message names: chance decides which it is.
var inFlight = regexp.MustCompile(`operation \d+ \((read|write) \d+ at \d+\)`)

// TestMessages holds the messages of failed checks against a golden file: what a person reads who has the bug.
func TestMessages(t *testing.T) {
	k := kinds()[0]
	var b strings.Builder
	for _, name := range []string{
		"accepted-beyond", "completion-lost", "completion-twice", "doubt-is-failed", "full-is-error", "nothing-fails", "reap-returns-nothing",
		"rights-are-transient", "setting-bound", "setting-open", "stop-fails", "strange-status", "zeros-skipped",
	} {
		at := slices.IndexFunc(k.Bugs, func(b kitscore.Bug) bool { return b.Name == name })
		require.GreaterOrEqual(t, at, 0, name)
		r := kitscore.Run{
			Kind: k.ID.Kind, Bug: name, Mode: kitscore.InProcess, Checks: k.Bugs[at].Finds, FailFast: true, Limit: time.Minute, Patience: 3 * time.Second,
		}
		report, err := r.Apart(t.Context())
		require.NoError(t, err)
		for _, c := range report.Checks {
			if c.Status != conformance.Fail {
				continue
			}
			require.NotContains(t, c.Message, "rapid", name)
			require.NotContains(t, c.Message, "goroutine ", name)
			require.NotContains(t, c.Message, ".go:", name)
			if c.Name == "exactly one completion" { // Its calls are random.
				require.Regexp(t, ofRandomCalls, c.Message, name)
				continue
			}
			fmt.Fprintf(&b, "%s\n%s: %s\n\n", k.Bugs[at].Wrong, c.Name, inFlight.ReplaceAllString(numbers.ReplaceAllString(c.Message, "#"), "operation # ($1 # at #)"))
		}
	}
	golden := filepath.Join("testdata", "messages.txt")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755)) //nolint:gosec // a folder of the repository
		require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(), "run go test ./test/kitscore -run TestMessages -update if the new words are better")
}
