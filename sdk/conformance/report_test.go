package conformance_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
)

func reported() conformance.Report {
	return conformance.Report{
		Format: 1, Plugin: "evict/x", Version: "1.2.3", Home: "/usr/lib/x", Mode: "subprocess", SHA256: "abcd", Suite: "evict",
		Platform: "linux/amd64", Go: "go1.26", Started: time.Date(2026, 8, 1, 14, 0, 5, 999, time.FixedZone("", 7200)), Seconds: 12.3456,
		Checks: []conformance.Check{
			{Name: "good", Rule: "Be good.", Status: conformance.Pass, Seconds: 0.126, Log: "noise"},
			{Name: "bad", Rule: "Not <so>.", Status: conformance.Fail, Seconds: 1.5, Message: "one\ntwo\n", Log: "one\ntwo\nat line 7\n"},
			{Name: "left", Rule: "None.", Status: conformance.Skip, Seconds: 0.0004, Message: "no device\nat all"},
		},
		Figures: []conformance.Figure{{Check: "good", Name: "inserts", Value: 1234567.89, Unit: "1/s"}},
	}
}

const wantText = `evict/x 1.2.3, subprocess, /usr/lib/x, linux/amd64
sha256 abcd
pass  good (0.13 s)
fail  bad (1.50 s)
      rule: Not <so>.
      one
      two
skip  left: no device
figures
      inserts                                   1.23457e+06 1/s
evict/x: 1 passed, 1 failed, 1 skipped, 12.3 s
`

const wantJUnit = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="conformance evict/x" tests="3" failures="1" errors="0" skipped="1" time="12.346">
  <testsuite name="conformance evict/x" tests="3" failures="1" errors="0" skipped="1" time="12.346" timestamp="2026-08-01T12:00:05">
    <properties>
      <property name="plugin" value="evict/x"></property>
      <property name="version" value="1.2.3"></property>
      <property name="suite" value="evict"></property>
      <property name="mode" value="subprocess"></property>
      <property name="home" value="/usr/lib/x"></property>
      <property name="sha256" value="abcd"></property>
      <property name="platform" value="linux/amd64"></property>
      <property name="go" value="go1.26"></property>
      <property name="figure.inserts" value="1.23456789e+06 1/s"></property>
    </properties>
    <testcase name="good" classname="conformance.evict.x" time="0.126">
      <system-out>rule: Be good.</system-out>
    </testcase>
    <testcase name="bad" classname="conformance.evict.x" time="1.500">
      <failure message="one&#xA;two&#xA;" type="conformance">rule: Not &lt;so&gt;.&#xA;one&#xA;two&#xA;at line 7&#xA;</failure>
    </testcase>
    <testcase name="left" classname="conformance.evict.x" time="0.000">
      <skipped message="no device&#xA;at all"></skipped>
    </testcase>
  </testsuite>
</testsuites>
`

const wantJSON = `{
  "mooncake_conformance_report": 1,
  "plugin": "evict/x",
  "version": "1.2.3",
  "home": "/usr/lib/x",
  "mode": "subprocess",
  "sha256": "abcd",
  "suite": "evict",
  "platform": "linux/amd64",
  "go": "go1.26",
  "started": "2026-08-01T14:00:05.000000999+02:00",
  "seconds": 12.3456,
  "checks": [
    {
      "name": "good",
      "rule": "Be good.",
      "status": "pass",
      "seconds": 0.126,
      "log": "noise"
    },
    {
      "name": "bad",
      "rule": "Not \u003cso\u003e.",
      "status": "fail",
      "seconds": 1.5,
      "message": "one\ntwo\n",
      "log": "one\ntwo\nat line 7\n"
    },
    {
      "name": "left",
      "rule": "None.",
      "status": "skip",
      "seconds": 0.0004,
      "message": "no device\nat all"
    }
  ],
  "figures": [
    {
      "check": "good",
      "name": "inserts",
      "value": 1234567.89,
      "unit": "1/s"
    }
  ]
}
`

// TestForms: other programs read these; a change is one of the format.
func TestForms(t *testing.T) {
	for name, form := range map[string]struct {
		write func(conformance.Report, io.Writer) error
		want  string
	}{
		"text":  {conformance.Report.WriteText, wantText},
		"junit": {conformance.Report.WriteJUnit, wantJUnit},
		"json":  {conformance.Report.WriteJSON, wantJSON},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			require.NoError(t, form.write(reported(), &b))
			require.Equal(t, form.want, b.String())
			for limit := range b.Len() {
				require.ErrorIs(t, form.write(reported(), &full{limit}), errFull, "the report is cut after %d bytes", limit)
			}
		})
	}
}

// TestFormsOfLittle: what is not known is left out, and a report without checks has a list.
func TestFormsOfLittle(t *testing.T) {
	r := conformance.Report{Plugin: "evict/x", Version: "1", Platform: "p", Checks: []conformance.Check{}}
	var text, js, xm bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	require.Equal(t, "evict/x 1, p\nevict/x: 0 passed, 0 failed, 0 skipped, 0.0 s\n", text.String())
	require.NoError(t, r.WriteJSON(&js))
	require.Contains(t, js.String(), `"checks": []`)
	require.NotContains(t, js.String(), "sha256")
	require.NoError(t, r.WriteJUnit(&xm))
	require.NotContains(t, xm.String(), "sha256")
	require.False(t, r.Failed())
}

var errFull = errors.New("the writer is full")

// full is a writer that takes at most limit bytes.
type full struct{ limit int }

func (f *full) Write(p []byte) (int, error) {
	if len(p) > f.limit {
		return f.limit, errFull
	}
	f.limit -= len(p)
	return len(p), nil
}

// TestMessages: of what a check says, a report has in short why it failed.
func TestMessages(t *testing.T) {
	many := strings.Repeat("line\n", 7)
	for said, want := range map[string]string{
		"plain":  "plain",
		"a\nb\n": "a\nb",
		many:     strings.Repeat("line\n", 6) + "...",
		"\n\tError Trace:\tx.go:7\n\t\t\ty.go:8\n\tError:      \tNot equal:\n\t            \texpected: 1\n\tTest:       \tT\n\tMessages:   \tthey differ\n": "they differ\nNot equal:\nexpected: 1",
		"Error: of another": "of another",
		"Note: Error: 3":    "Note: Error: 3",
	} {
		r := run(t, conformance.Options{}, func(c conformance.T) { c.Error(said) })
		require.Equal(t, want, r.Checks[0].Message)
		require.Equal(t, strings.TrimRight(said, "\n")+"\n", r.Checks[0].Log)
	}
}

func TestReportSaysWhatRan(t *testing.T) {
	before := time.Now()
	r := run(t, conformance.Options{}, func(conformance.T) {})
	require.Equal(t, 1, r.Format)
	require.Equal(t, []string{"evict/x", "1.2.3", "evict"}, []string{r.Plugin, r.Version, r.Suite})
	require.Equal(t, []string{runtime.GOOS + "/" + runtime.GOARCH, runtime.Version()}, []string{r.Platform, r.Go})
	require.Equal(t, time.UTC, r.Started.Location())
	require.WithinRange(t, r.Started, before.Add(-time.Second), time.Now().Add(time.Second))
}
