package conformance

import (
	"runtime"
	"slices"
	"strings"
	"time"
)

// Status is how a check ended.
type Status string

// The ends of a check.
const (
	Pass Status = "pass"
	Fail Status = "fail"
	Skip Status = "skip"
)

// Check is the result of a case.
type Check struct {
	Name   string `json:"name"`
	Rule   string `json:"rule"`
	Status Status `json:"status"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
	// Hung says that it failed only because it did not end in time.
	Hung bool `json:"hung,omitempty"`
	// Message is why it failed or was skipped, in short.
	Message string `json:"message,omitempty"`
	// Log is all that it said, at most 64 KiB.
	Log string `json:"log,omitempty"`
	// Detail has stacks of Go, at most 64 KiB.
	Detail string `json:"detail,omitempty"`
}

// Figure is a number that a check measured.
type Figure struct {
	Check string  `json:"check"`
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Report is what a run of a suite found.
type Report struct {
	// Format is the version of this form, 1.
	Format int `json:"mooncake_conformance_report"`
	// Plugin is kind and name, Version its version.
	Plugin  string `json:"plugin"`
	Version string `json:"version"`
	// Home is where the plugin came from: a file, or the program itself. The program that runs the
	// suite sets Home, Mode and SHA256.
	Home string `json:"home,omitempty"`
	// Mode is how it ran: "inprocess" or "subprocess".
	Mode string `json:"mode,omitempty"`
	// SHA256 is the hash of the program that ran, in hexadecimal.
	SHA256 string `json:"sha256,omitempty"`
	// Suite is the name of the suite.
	Suite string `json:"suite"`
	// Platform is the operating system and architecture, Go the version of Go.
	Platform string    `json:"platform"`
	Go       string    `json:"go"`
	Started  time.Time `json:"started"`
	// Seconds is how long the run took.
	Seconds float64  `json:"seconds"`
	Checks  []Check  `json:"checks"`
	Figures []Figure `json:"figures,omitempty"`
}

func newReport(s Suite) Report {
	return Report{
		Format: 1, Plugin: s.Plugin.ID.String(), Version: s.Plugin.Version, Suite: s.Name,
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Started: time.Now().UTC(), Checks: []Check{},
	}
}

// Failed reports whether a check failed.
func (r Report) Failed() bool { return r.Count(Fail) > 0 }

// Count returns how many checks ended so.
func (r Report) Count(s Status) int {
	n := 0
	for _, c := range r.Checks {
		if c.Status == s {
			n++
		}
	}
	return n
}

// short returns what a failure says without where in the code it was found: the parts "Messages" and "Error" of
// testify, without its phrases, else the first lines.
func short(text string) string {
	lines := strings.Split(strings.TrimSpace(withoutRapid(text)), "\n")
	var said, found []string
	label, labelled := "", false
	for _, line := range lines {
		line = strings.TrimPrefix(line, "\t")
		if name, rest, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") && isLabel(name) {
			label, labelled, line = name, true, rest
		}
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case label == "Messages":
			said = append(said, line)
		case label == "Error" && !slices.Contains(phrases, line):
			found = append(found, line)
		}
	}
	out := append(said, found...)
	if !labelled || len(out) == 0 {
		out = lines
	}
	const most = 6
	if len(out) > most {
		out = append(out[:most:most], "...")
	}
	return once(strings.Join(out, "\n"))
}

// phrases of testify say nothing of the plugin.
var phrases = []string{"Received unexpected error:", "Should be true", "Should be false", "Condition never satisfied"}

// once drops each part of an error, up to a colon, that only repeats the parts before it: both sides of a wire name the
// plugin and the call.
func once(text string) string {
	for {
		again := false
		parts := strings.Split(text, ": ")
		for n := 1; n <= 2 && !again; n++ {
			for i := n; i+n <= len(parts); i++ {
				if slices.Equal(parts[i-n:i], parts[i:i+n]) {
					text, again = strings.Join(slices.Delete(parts, i, i+n), ": "), true
					break
				}
			}
		}
		if !again {
			return text
		}
	}
}

// withoutRapid returns what a property check says without how package rapid found it: the reason
// after the number of tests, and not the traceback nor how to repeat it.
func withoutRapid(text string) string {
	_, rest, ok := strings.Cut(text, "[rapid] ")
	if !ok {
		return text
	}
	if _, reason, ok := strings.Cut(rest, "\nOriginal traceback ("); ok { // It did not fail again in the same way.
		rest, _, _ = strings.Cut(reason, "):\n")
	} else if _, reason, ok := strings.Cut(rest, " tests: "); ok {
		rest = reason
	}
	for _, end := range []string{"\nTo reproduce", "\nFailed test output", "\nTraceback", "\n[rapid]"} {
		rest, _, _ = strings.Cut(rest, end)
	}
	return rest
}

// isLabel reports whether a word is one of testify's labels.
func isLabel(s string) bool {
	switch s {
	case "Error Trace", "Error", "Messages", "Test":
		return true
	}
	return false
}
