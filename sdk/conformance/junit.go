package conformance

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"`
	Timestamp  string          `xml:"timestamp,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name      string        `xml:"name,attr"`
	ClassName string        `xml:"classname,attr"`
	Time      string        `xml:"time,attr"`
	Skipped   *junitSkipped `xml:"skipped"`
	Failure   *junitFailure `xml:"failure"`
	SystemOut string        `xml:"system-out,omitempty"`
}

type junitSkipped struct {
	Message string `xml:"message,attr"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the report as JUnit XML, which CI systems read: one suite, a test case
// for each check, the rest as properties.
func (r Report) WriteJUnit(w io.Writer) error {
	s := junitSuite{
		Name: "conformance " + r.Plugin, Tests: len(r.Checks), Failures: r.Count(Fail), Skipped: r.Count(Skip),
		Time: seconds(r.Seconds), Timestamp: r.Started.UTC().Format("2006-01-02T15:04:05"),
	}
	for _, p := range [][2]string{
		{"plugin", r.Plugin}, {"version", r.Version}, {"suite", r.Suite}, {"mode", r.Mode}, {"home", r.Home},
		{"sha256", r.SHA256}, {"platform", r.Platform}, {"go", r.Go},
	} {
		if p[1] != "" {
			s.Properties = append(s.Properties, junitProperty{p[0], p[1]})
		}
	}
	for _, f := range r.Figures {
		s.Properties = append(s.Properties, junitProperty{"figure." + f.Name, fmt.Sprintf("%g %s", f.Value, f.Unit)})
	}
	class := "conformance." + strings.ReplaceAll(r.Plugin, "/", ".")
	for _, c := range r.Checks {
		jc := junitCase{Name: c.Name, ClassName: class, Time: seconds(c.Seconds)}
		switch c.Status {
		case Fail:
			jc.Failure = &junitFailure{Message: c.Message, Type: "conformance", Text: "rule: " + c.Rule + "\n" + c.Log}
		case Skip:
			jc.Skipped = &junitSkipped{Message: c.Message}
		default:
			jc.SystemOut = "rule: " + c.Rule
		}
		s.Cases = append(s.Cases, jc)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(junitSuites{
		Name: s.Name, Tests: s.Tests, Failures: s.Failures, Skipped: s.Skipped, Time: s.Time, Suites: []junitSuite{s},
	}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }
