package kitscore

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/conform"
	"github.com/mooncake-go/mooncake/sdk/conformance"
)

// Mode is how a suite runs.
type Mode string

// The modes.
const (
	Binary    Mode = "binary"
	InProcess Mode = "inprocess"
)

// Run is one run of a suite on one bug. It travels to a process of its own as JSON, so that a bug
// that leaks or hangs does not disturb the next one.
type Run struct {
	Kind string `json:"kind"`
	Bug  string `json:"bug"`
	Mode Mode   `json:"mode"`
	// Checks are the names of the checks to run; empty for all.
	Checks []string `json:"checks,omitempty"`
	// FailFast ends the run with the first check that fails.
	FailFast bool `json:"fail_fast"`
	// Dir is the folder of the programs.
	Dir string `json:"dir"`
	// Limit bounds each check, Patience each wait and call, in nanoseconds.
	Limit    time.Duration `json:"limit"`
	Patience time.Duration `json:"patience"`
}

// Here carries out a run in this process.
func (r Run) Here(ctx context.Context, kinds []Kind) (conformance.Report, error) {
	at := slices.IndexFunc(kinds, func(k Kind) bool { return k.ID.Kind == r.Kind })
	if at < 0 {
		return conformance.Report{}, fmt.Errorf("there is no kind %q", r.Kind)
	}
	k := kinds[at]
	o := conformance.Options{Limit: r.Limit, Patience: r.Patience, FailFast: r.FailFast, Skip: "^throughput$"}
	if len(r.Checks) > 0 {
		quoted := make([]string, len(r.Checks))
		for i, name := range r.Checks {
			quoted[i] = regexp.QuoteMeta(name)
		}
		o.Run = "^(" + strings.Join(quoted, "|") + ")$"
	}
	if r.Mode == InProcess {
		return conformance.Run(ctx, k.Suite(r.Bug), o)
	}
	catalog, err := pluginhost.New(nil, pluginhost.Options{Dirs: []string{r.Dir}})
	if err != nil {
		return conformance.Report{}, err
	}
	defer catalog.Close(context.WithoutCancel(ctx)) //nolint:errcheck // The process ends.
	settings := map[string]any{}
	for name, value := range k.Settings {
		settings[name] = value
	}
	if err := os.Setenv(BugEnv, r.Bug); err != nil {
		return conformance.Report{}, err
	}
	if k.Folder != "" {
		folder, err := os.MkdirTemp(r.Dir, "run")
		if err != nil {
			return conformance.Report{}, err
		}
		settings[k.Folder] = folder
	}
	spec := pluginhost.Spec{Mode: pluginhost.ModeSubprocess, Config: settings, Env: []string{BugEnv}}
	return conform.Run(ctx, catalog, k.ID, spec, conform.Options{Options: o})
}

// ChildEnv holds a Run, as JSON, for a process that carries it out: see Child.
const ChildEnv = "MOONCAKE_KITSCORE_RUN"

// Child carries out the run of ChildEnv, writes the report to standard output as JSON, and reports
// whether there was one.
func Child(ctx context.Context, kinds []Kind) (bool, error) {
	text, ok := os.LookupEnv(ChildEnv)
	if !ok {
		return false, nil
	}
	var r Run
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return true, fmt.Errorf("%s: %w", ChildEnv, err)
	}
	report, err := r.Here(ctx, kinds)
	if err != nil {
		return true, err
	}
	return true, report.WriteJSON(os.Stdout)
}

// Apart carries out a run in a process of its own, which calls Child.
func (r Run) Apart(ctx context.Context) (report conformance.Report, err error) {
	text, err := json.Marshal(r)
	if err != nil {
		return report, err
	}
	self, err := os.Executable()
	if err != nil {
		return report, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), ChildEnv+"="+string(text))
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		return report, fmt.Errorf("the run of bug %q in mode %s: %w\n%s", r.Bug, r.Mode, err, tail(log.String()))
	}
	return report, json.Unmarshal(out, &report)
}

// tail returns the last KiB of a text.
func tail(s string) string { return s[max(0, len(s)-1024):] }

// Build builds the programs of kinds into dir. It runs the go command in the working directory.
func Build(ctx context.Context, dir string, kinds []Kind) error {
	for _, k := range kinds {
		out := filepath.Join(dir, k.ID.BinaryName())
		text, err := exec.CommandContext(ctx, "go", "build", "-o", out, k.Package).CombinedOutput()
		if err != nil {
			return fmt.Errorf("build %s: %w\n%s", k.Package, err, text)
		}
		if err := os.Chmod(out, 0o755); err != nil { //nolint:gosec // a program
			return err
		}
	}
	return nil
}

// Found is what a run says of a bug.
type Found struct {
	// Check is the check that found it, empty if none did; Message is what the check said.
	Check   string  `json:"check,omitempty"`
	Message string  `json:"message,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Verdict is the result for one bug.
type Verdict struct {
	Bug       string `json:"bug"`
	Kind      string `json:"kind"`
	Wrong     string `json:"wrong,omitempty"`
	Race      bool   `json:"race,omitempty"`
	Killed    bool   `json:"killed,omitempty"`
	Bounded   string `json:"bounded,omitempty"`
	Binary    bool   `json:"binary"`
	InProcess bool   `json:"inprocess"`
	// How has the details by mode.
	How map[Mode]Found `json:"how"`
}

// Of looks for the failure of a check that tests the rule that a bug breaks.
func Of(b Bug, report conformance.Report) Found {
	f := Found{Seconds: report.Seconds}
	for _, c := range report.Checks {
		if c.Status == conformance.Fail && !c.Hung && slices.Contains(b.Finds, c.Name) {
			f.Check, f.Message = c.Name, c.Message
			break
		}
	}
	return f
}

// Score tries the bugs of kinds whose "kind/name" match which, nil for all, in both modes. base
// gives folder and limits of the runs. With all, every check runs on each bug, not only those that
// should find it. progress is called after each bug.
func Score(ctx context.Context, kinds []Kind, which *regexp.Regexp, base Run, all bool, progress func(Verdict)) ([]Verdict, error) {
	var out []Verdict
	for _, k := range kinds {
		for _, b := range k.Bugs {
			if which != nil && !which.MatchString(k.ID.Kind+"/"+b.Name) {
				continue
			}
			v := Verdict{Bug: b.Name, Kind: k.ID.Kind, Wrong: b.Wrong, Race: b.Race, Killed: b.Killed, Bounded: b.Bounded, How: map[Mode]Found{}}
			for _, mode := range []Mode{Binary, InProcess} {
				r := base
				r.Kind, r.Bug, r.Mode, r.FailFast = k.ID.Kind, b.Name, mode, !all
				if !all {
					r.Checks = b.Finds
				}
				report, err := r.Apart(ctx)
				if err != nil {
					return out, err
				}
				v.How[mode] = Of(b, report)
			}
			v.Binary, v.InProcess = v.How[Binary].Check != "", v.How[InProcess].Check != ""
			out = append(out, v)
			progress(v)
		}
	}
	return out, nil
}

// Alarms runs every check on the correct plugin of each kind, in both modes, and lists the checks
// that fail.
func Alarms(ctx context.Context, kinds []Kind, base Run) ([]string, error) {
	var out []string
	for _, k := range kinds {
		for _, mode := range []Mode{Binary, InProcess} {
			r := base
			r.Kind, r.Mode = k.ID.Kind, mode
			report, err := r.Apart(ctx)
			if err != nil {
				return out, err
			}
			for _, c := range report.Checks {
				if c.Status == conformance.Fail {
					out = append(out, fmt.Sprintf("%s without a bug, %s: %s: %s", k.ID, mode, c.Name, c.Message))
				}
			}
		}
	}
	return out, nil
}
