package conformance_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
)

// asPart makes TestParts the parts of a test whose output is looked at.
const asPart = "CONFORMANCE_TEST_PARTS"

// TestParts is run by TestTest, and fails there.
func TestParts(t *testing.T) {
	if os.Getenv(asPart) == "" {
		t.Skip("it is run by TestTest")
	}
	s := suite()
	s.Cases = []conformance.Case{
		{Name: "good", Rule: "Rule 1.", Vital: true, Run: func(c conformance.T) {
			conformance.AddFigure(c, "speed", 3.5, "1/s")
			c.Run("inner", func(c conformance.T) { c.Logf("this is %s", c.Name()) })
		}},
		{Name: "bad", Rule: "Rule 2.", Run: func(c conformance.T) { c.Error("they differ") }},
		{Name: "left", Rule: "Rule 3.", Skip: "cannot hold", Run: func(c conformance.T) { c.Error("it ran") }},
		{Name: "start", Rule: "Rule 4.", Vital: true, Run: func(c conformance.T) { c.Fatal("it does not start") }},
		{Name: "rest", Rule: "Rule 5.", Run: func(c conformance.T) { c.Error("it ran") }},
	}
	conformance.Test(t, s)
}

// TestTest checks the output of `go test` for a suite.
func TestTest(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestParts$", "-test.v") //nolint:gosec // itself
	cmd.Env = append(os.Environ(), asPart+"=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "%s", out)
	for _, part := range []string{
		"--- PASS: TestParts/good ", "speed: 3.5 1/s", "this is TestParts/good/inner",
		"--- FAIL: TestParts/bad ", "they differ", "the rule: Rule 2.",
		"--- SKIP: TestParts/left ", "cannot hold",
		"--- FAIL: TestParts/start ", "the rule: Rule 4.",
	} {
		require.Contains(t, string(out), part)
	}
	for _, part := range []string{"Rule 1.", "it ran", "TestParts/rest"} {
		require.NotContains(t, string(out), part)
	}
}

// TestRunOfAProgram: property checks work where no test runs, and leave no files.
func TestRunOfAProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	program, dir := filepath.Join(t.TempDir(), "program"), t.TempDir()
	text, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/program").CombinedOutput()
	require.NoError(t, err, "%s", text)
	cmd := exec.CommandContext(t.Context(), program) //nolint:gosec // just built
	cmd.Dir = dir
	out, err := cmd.Output()
	require.NoError(t, err)
	var r conformance.Report
	require.NoError(t, json.Unmarshal(out, &r))
	require.Len(t, r.Checks, 2)
	require.Equal(t, conformance.Pass, r.Checks[0].Status)
	require.Equal(t, conformance.Fail, r.Checks[1].Status, "a completion comes twice")
	require.Contains(t, r.Checks[1].Message, "which is not in flight")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
