package plugins_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/plugins"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// build builds a package as a plugin, and trusts it.
func (w workbench) build(id, from string) string {
	w.t.Helper()
	program := filepath.Join(w.dir, plugin.BinaryPrefix+id)
	build := exec.CommandContext(w.t.Context(), "go", "build", "-o", program, from)
	text, err := build.CombinedOutput()
	require.NoError(w.t, err, "%s", text)
	require.NoError(w.t, os.Chmod(program, 0o755)) //nolint:gosec // a program
	w.trust()
	return program
}

// script makes a shell script a plugin, by its looks, and trusts it.
func (w workbench) script(id, text string) string {
	w.t.Helper()
	parsed, err := plugin.ParseID(id)
	require.NoError(w.t, err)
	program := w.write(filepath.Join(w.dir, parsed.BinaryName()), id, "1.0.0", "#!/bin/sh\n"+text+"\nexit\n#\x00")
	w.trust()
	return program
}

func (w workbench) trust() {
	w.t.Helper()
	code, out, errOut := w.run("lock")
	require.Zero(w.t, code, "%s%s", out, errOut)
}

// TestConformanceOfAProgram runs a few checks on a real one, in each form of the report.
func TestConformanceOfAProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts a program")
	}
	w := newWorkbench(t)
	program := w.build("evict-lru", "github.com/mooncake-go/mooncake/plugins/evict-lru/cmd/mooncake-plugin-evict-lru")
	file := filepath.Join(w.home, "report.json")
	some := []string{"conformance", program, "--run", "^(manifest|propose|a killed process)$"}

	code, out, errOut := w.run(some...)
	require.Zero(t, code, "%s%s", out, errOut)
	assert.Contains(t, out, "pass  propose")
	assert.Contains(t, out, "pass  a killed process")
	assert.Contains(t, out, "3 passed, 0 failed, 0 skipped")

	code, out, errOut = w.run(append(some, "-o", "json")...)
	require.Zero(t, code, errOut)
	var report conformance.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report), "nothing but the report")
	assert.Len(t, report.Checks, 3)
	assert.Equal(t, "subprocess", report.Mode)
	assert.NotEmpty(t, report.SHA256)

	code, out, errOut = w.run(append(some, "-o", "junit", "--report", file)...)
	require.Zero(t, code, errOut)
	assert.Contains(t, out, "3 passed, 0 failed")
	saved, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.True(t, json.Valid(saved), "the ending of the file decides")
	code, out, errOut = w.run(append(some, "-o", "junit")...)
	require.Zero(t, code, errOut)
	require.NoError(t, xml.Unmarshal([]byte(out), new(struct {
		XMLName xml.Name `xml:"testsuites"`
	})))

	for _, wrong := range [][]string{{"-o", "yaml"}, {"--run", "("}, {"--run", "no such check"}, {"--suite", "alloc"}, {"--mode", "inprocess"}, {"--timeout", "0s"}, {"--start-timeout", "0s"}, {"--check-timeout", "-1s"}} {
		code, _, _ := w.run(append([]string{"conformance", program}, wrong...)...)
		assert.Equal(t, command.ExitUsage, code, "%q", wrong)
	}
}

// TestConformanceComparesAnEvictor: with --trace, after the checks, and it says which policy the evictor is.
func TestConformanceComparesAnEvictor(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts a program")
	}
	const trace = "../../../../core/bench/evictsim/testdata/small.jsonl"
	w := newWorkbench(t)
	program := w.build("evict-lru", "github.com/mooncake-go/mooncake/plugins/evict-lru/cmd/mooncake-plugin-evict-lru")
	some := []string{"conformance", program, "--run", "^manifest$"}

	code, out, errOut := w.run(append(some, "--trace", trace)...)
	require.Zero(t, code, "%s%s", out, errOut)
	assert.Contains(t, out, "hit ratios on "+trace+": 120 requests, 1611 blocks, 532 distinct\n")
	assert.Contains(t, out, "evict/lru behaves as lru on this trace: the hit ratios are the same at each capacity\n")
	assert.Contains(t, out, "prefix hit ratio, 33 blocks")

	code, out, errOut = w.run(append(some, "--trace", trace, "-o", "json")...)
	require.Zero(t, code, errOut)
	var report conformance.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report), "nothing but the report")
	assert.Len(t, report.Figures, 3, "a figure for each capacity")

	_, out, _ = w.run(some...)
	assert.NotContains(t, out, "hit ratio", "not for a few checks")
	code, _, errOut = w.run("conformance", program, "--trace", "absent.jsonl")
	assert.Equal(t, command.ExitUsage, code)
	assert.Contains(t, errOut, "--trace: open absent.jsonl")
	code, _, _ = w.run("conformance", "transport/tcp", "--trace", trace)
	assert.Equal(t, command.ExitUsage, code, "a transport has no hit ratio")
}

// TestConformanceOfAPluginThatBreaksARule: the exit code is 1 in each form of the report,
// and the report names the rule.
func TestConformanceOfAPluginThatBreaksARule(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts a program")
	}
	w := newWorkbench(t)
	program := w.build("transport-tcp", "./testdata/lossy")
	some := []string{"conformance", program, "--config", `host="127.0.0.1"`, "--run", "^(manifest|zero length|content at many sizes)$"}

	code, out, errOut := w.run(some...)
	assert.Equal(t, command.ExitFailure, code, "%s%s", out, errOut)
	assert.Empty(t, errOut, "the report says it all")
	assert.Contains(t, out, "pass  manifest")
	assert.Contains(t, out, "fail  content at many sizes")
	assert.Contains(t, out, "rule: A completed operation has moved exactly its bytes")
	assert.Contains(t, out, "the plan says so", "the reason that the plugin gave")

	code, out, _ = w.run(append(some, "-o", "json")...)
	assert.Equal(t, command.ExitFailure, code)
	var report conformance.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report), "nothing but the report")
	assert.True(t, report.Failed())
	require.Len(t, report.Checks, 3)
	for _, c := range report.Checks {
		assert.Equal(t, c.Name == "content at many sizes", c.Status == conformance.Fail, "%s: %s", c.Name, c.Message)
	}

	code, out, _ = w.run(append(some, "-o", "junit")...)
	assert.Equal(t, command.ExitFailure, code)
	var doc struct {
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Name    string  `xml:"name,attr"`
			Failure *string `xml:"failure"`
		} `xml:"testsuite>testcase"`
	}
	require.NoError(t, xml.Unmarshal([]byte(out), &doc), "nothing but the report")
	assert.Equal(t, 1, doc.Failures)
	require.Len(t, doc.Cases, 3)
	for _, c := range doc.Cases {
		assert.Equal(t, c.Name == "content at many sizes", c.Failure != nil, c.Name)
	}
}

// TestConformanceOfWhatIsNoPlugin: the reason is there, once, and nothing is left running.
func TestConformanceOfWhatIsNoPlugin(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a program that does not answer")
	}
	w := newWorkbench(t)
	blank := filepath.Join(w.dir, "mooncake-plugin-evict-blank")
	require.NoError(t, os.WriteFile(blank, []byte("no plugin\n"), 0o755)) //nolint:gosec // a program
	code, out, errOut := w.run("conformance", blank)
	assert.Equal(t, command.ExitFailure, code)
	assert.Empty(t, out)
	assert.Contains(t, errOut, "carries no Mooncake plugin manifest")
	code, _, errOut = w.run("conformance", filepath.Join(w.dir, "mooncake-plugin-evict-absent"))
	assert.Equal(t, command.ExitFailure, code)
	assert.Contains(t, errOut, "mooncake-plugin-evict-absent")

	pids := filepath.Join(w.home, "pids")
	// A program that prints another text than the handshake is killed at once, so it comes last.
	for id, c := range map[string]struct{ script, says, patience string }{
		"evict/hung":  {"echo $$ >>" + pids + "; exec sleep 1000", "no handshake within 10s", "10s"},
		"evict/other": {"echo $$ >>" + pids + "\necho the frobnicator is missing >&2; echo hello; exit 3", "the frobnicator is missing", "30s"},
	} {
		code, out, errOut := w.run("conformance", w.script(id, c.script), "--start-timeout", c.patience)
		assert.Equal(t, command.ExitFailure, code, "%s%s", out, errOut)
		assert.Contains(t, out, "fail  start and stop")
		assert.Contains(t, out, c.says)
		assert.Contains(t, out, "skip  manifest", "each check would wait for it")
		assert.Contains(t, out, id+": 0 passed, 1 failed, ")
	}
	saved, err := os.ReadFile(pids)
	require.NoError(t, err)
	started := strings.Fields(string(saved))
	require.Len(t, started, 2, "each was tried once")
	for _, text := range started {
		pid, err := strconv.Atoi(text)
		require.NoError(t, err)
		assert.Eventually(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }, time.Minute, 10*time.Millisecond, "process %d is left", pid)
	}
}

// TestInspectRuns: with --run the program says what it accepts, and a manifest that differs is a failure.
func TestInspectRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts a program")
	}
	w := newWorkbench(t)
	program := w.build("evict-s3fifo", "github.com/mooncake-go/mooncake/plugins/evict-s3fifo/cmd/mooncake-plugin-evict-s3fifo")
	for _, what := range []string{program, "evict/s3fifo"} {
		code, out, errOut := w.run("inspect", what, "--run")
		require.Equal(t, command.ExitOK, code, "%s%s", out, errOut)
		assert.NotContains(t, out, "difference")
	}
	text, err := os.ReadFile(program)
	require.NoError(t, err)
	other := bytes.Replace(text, []byte(`"minimum": `), []byte(`"minimun": `), 1)
	require.NotEqual(t, text, other)
	require.NoError(t, os.WriteFile(program, other, 0o755)) //nolint:gosec // a program
	code, _, errOut := w.run("inspect", program, "--run")
	assert.Equal(t, command.ExitFailure, code)
	assert.Contains(t, errOut, "lock", "a program that is not trusted does not run")
	w.trust()
	var in plugins.Inspection
	require.Equal(t, command.ExitFailure, w.json(&in, "inspect", program, "--run"))
	require.Len(t, in.Differences, 1)
	assert.Contains(t, in.Differences[0], "the minimum of ")
	in = plugins.Inspection{}
	require.Equal(t, command.ExitOK, w.json(&in, "inspect", program))
	assert.Empty(t, in.Differences, "nothing runs without --run")
}
