package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var order []string

func suite() conformance.Suite {
	cases := map[string]func(conformance.T){
		"passes":      func(t conformance.T) { conformance.AddFigure(t, "speed", 3, "1/s") },
		"fails":       func(t conformance.T) { require.Equal(t, 1, 2, "they differ") },
		"fails twice": func(t conformance.T) { t.Errorf("first"); t.Fatalf("second") },
		"panics":      func(conformance.T) { panic("out of order") },
		"skips":       func(t conformance.T) { t.Skip("not here") },
		"hangs":       func(t conformance.T) { <-t.Context().Done() },
		"part fails":  func(t conformance.T) { t.Run("inner", func(t conformance.T) { t.Error("\x00<deep>") }) },
		"cleans up": func(t conformance.T) {
			t.Cleanup(func() { order = append(order, "first made") })
			t.Cleanup(func() { order = append(order, "last made") })
			t.FailNow()
		},
		"in goroutines": func(t conformance.T) {
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() { t.Errorf("one of them") })
			}
			wg.Wait()
		},
	}
	s := conformance.Suite{Name: "evict", Plugin: plugin.Manifest{ID: plugin.ID{Kind: "evict", Name: "x"}, Version: "1.2.3"}}
	for _, name := range []string{"passes", "fails", "fails twice", "panics", "skips", "hangs", "part fails", "cleans up", "in goroutines"} {
		s.Cases = append(s.Cases, conformance.Case{Name: name, Rule: "The rule of " + name + ".", Run: cases[name]})
	}
	s.Cases = append(s.Cases, conformance.Case{Name: "left out", Rule: "None.", Skip: "cannot hold"})
	return s
}

func TestRun(t *testing.T) {
	order = nil
	r, err := conformance.Run(t.Context(), suite(), conformance.Options{Limit: time.Second})
	require.NoError(t, err)
	want := map[string]conformance.Status{
		"passes": "pass", "fails": "fail", "fails twice": "fail", "panics": "fail", "skips": "skip", "hangs": "fail",
		"part fails": "fail", "cleans up": "fail", "in goroutines": "fail", "left out": "skip",
	}
	messages := map[string]string{
		"fails": "they differ", "fails twice": "first", "panics": "panic: out of order", "skips": "not here",
		"hangs": "did not end within 1s", "part fails": "inner: ", "left out": "cannot hold",
	}
	require.Len(t, r.Checks, len(want))
	for _, c := range r.Checks {
		require.Equal(t, want[c.Name], c.Status, c.Name)
		require.Contains(t, c.Message, messages[c.Name], c.Name)
		require.NotEmpty(t, c.Rule)
	}
	require.Equal(t, []string{"last made", "first made"}, order)
	require.True(t, r.Failed())
	require.Equal(t, []conformance.Figure{{Check: "passes", Name: "speed", Value: 3, Unit: "1/s"}}, r.Figures)

	var text, js, xm bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	require.Contains(t, text.String(), "rule: The rule of fails.")
	require.Contains(t, text.String(), "1 passed, 7 failed, 2 skipped")
	require.NoError(t, r.WriteJSON(&js))
	var back conformance.Report
	require.NoError(t, json.Unmarshal(js.Bytes(), &back))
	require.Equal(t, r.Checks, back.Checks)
	require.NoError(t, r.WriteJUnit(&xm))
	junit(t, xm.Bytes())
}

// junit checks the shape that readers of JUnit XML agree on.
func junit(t *testing.T, text []byte) {
	var doc struct {
		XMLName xml.Name `xml:"testsuites"`
		Suites  []struct {
			Name     string `xml:"name,attr"`
			Tests    int    `xml:"tests,attr"`
			Failures int    `xml:"failures,attr"`
			Skipped  int    `xml:"skipped,attr"`
			Cases    []struct {
				Name    string    `xml:"name,attr"`
				Class   string    `xml:"classname,attr"`
				Time    float64   `xml:"time,attr"`
				Failure *struct{} `xml:"failure"`
				Skipped *struct{} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	require.NoError(t, xml.Unmarshal(text, &doc))
	require.Len(t, doc.Suites, 1)
	s := doc.Suites[0]
	require.Len(t, s.Cases, s.Tests)
	failed, skipped := 0, 0
	for _, c := range s.Cases {
		require.NotEmpty(t, c.Name)
		require.Equal(t, "conformance.evict.x", c.Class)
		if c.Failure != nil {
			failed++
		}
		if c.Skipped != nil {
			skipped++
		}
	}
	require.Equal(t, []int{7, 2}, []int{failed, skipped})
	require.Equal(t, []int{s.Failures, s.Skipped}, []int{failed, skipped})
	require.NotContains(t, string(text), "\x00")
}

func TestRunFilters(t *testing.T) {
	var seen []string
	r, err := conformance.Run(t.Context(), suite(), conformance.Options{Run: "^fails|passes", Skip: "twice", Progress: func(c conformance.Check) { seen = append(seen, c.Name) }})
	require.NoError(t, err)
	require.Equal(t, []string{"passes", "fails"}, seen)
	require.Len(t, r.Checks, 2)
	for _, o := range []conformance.Options{{Run: "("}, {Run: "nothing like it"}} {
		_, err := conformance.Run(t.Context(), suite(), o)
		require.Error(t, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	r, err = conformance.Run(over, suite(), conformance.Options{})
	require.NoError(t, err)
	require.Equal(t, len(r.Checks), r.Count(conformance.Skip))
}
