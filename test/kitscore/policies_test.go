package kitscore_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/test/kitscore"
	"github.com/mooncake-go/mooncake/test/kitscore/allocators"
	"github.com/mooncake-go/mooncake/test/kitscore/evictors"
	"github.com/mooncake-go/mooncake/test/kitscore/tiers"
)

// varies is part of messages that differ from run to run: numbers of operations, locators, folders.
var varies = regexp.MustCompile(`operation [0-9]+|at \[[0-9 ]+\]|/tmp/|read:|a Read with`)

// leaves are bugs that outlive the check that finds them: kit-score runs each in a process of its own.
func leaves(b kitscore.Bug) bool {
	return strings.Contains(b.Name, "goroutine-per-") || strings.Contains(b.Name, "descriptor-per-") || b.Name == "waits-for-objects" ||
		b.Name == "one-of-300" || b.Name == "accepted-count" || b.Killed
}

// TestBugsAreFoundInProcess: by a check that tests the rule that the bug breaks, with the message that an author can act on. make
// kit-score does the same with all bugs, and on programs.
func TestBugsAreFoundInProcess(t *testing.T) {
	var messages strings.Builder
	for _, k := range []kitscore.Kind{evictors.Kind(), allocators.Kind(), tiers.Kind()} {
		for _, b := range k.Bugs {
			if leaves(b) {
				continue
			}
			report, err := kitscore.Run{Kind: k.ID.Kind, Bug: b.Name, Mode: kitscore.InProcess, Checks: b.Finds, FailFast: true, Limit: time.Minute}.
				Here(t.Context(), []kitscore.Kind{k})
			require.NoError(t, err)
			found := kitscore.Of(b, report)
			if !assert.NotEmpty(t, found.Check, "%s/%s was missed: %s", k.ID.Kind, b.Name, b.Wrong) {
				continue
			}
			assert.NotRegexp(t, "0x[0-9a-f]{3}", found.Message, "numbers are in decimal, but for bytes")
			assert.NotContains(t, found.Message, "rapid")
			assert.NotContains(t, found.Message, ".go:", "the code of the suite means nothing to an author")
			if found.Check != "model" && found.Check != "concurrent" && !varies.MatchString(found.Message) {
				messages.WriteString(k.ID.Kind + "/" + b.Name + ": " + found.Check + ": " + found.Message + "\n")
			}
		}
	}
	if t.Failed() {
		return
	}
	const golden = "testdata/policies.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(messages.String()), 0o644)) //nolint:gosec // test data
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), messages.String(), "go test ./test/kitscore -update writes the messages")
}

// TestEachBugNamesChecksThatExist: a check that was renamed would not be run.
func TestEachBugNamesChecksThatExist(t *testing.T) {
	for _, k := range []kitscore.Kind{evictors.Kind(), allocators.Kind(), tiers.Kind()} {
		names := map[string]bool{}
		for _, c := range k.Suite("").Cases {
			names[c.Name] = true
		}
		seen := map[string]bool{}
		for _, b := range k.Bugs {
			assert.False(t, seen[b.Name], "%s/%s is there twice", k.ID.Kind, b.Name)
			seen[b.Name] = true
			for _, c := range b.Finds {
				assert.True(t, names[c], "%s/%s: there is no check %q", k.ID.Kind, b.Name, c)
			}
		}
	}
}

// TestTheCorrectPluginsPass: without a false alarm; make kit-score runs all of them, and on programs.
func TestTheCorrectPluginsPass(t *testing.T) {
	for _, k := range []kitscore.Kind{evictors.Kind(), allocators.Kind(), tiers.Kind()} {
		report, err := kitscore.Run{Kind: k.ID.Kind, Mode: kitscore.InProcess, Limit: time.Minute}.Here(t.Context(), []kitscore.Kind{k})
		require.NoError(t, err)
		for _, c := range report.Checks {
			assert.NotEqual(t, conformance.Fail, c.Status, "%s: %s: %s", k.ID, c.Name, c.Message)
		}
	}
}
