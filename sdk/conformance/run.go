package conformance

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"regexp"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// DefaultLimit bounds each check. Only one that hangs reaches it.
	DefaultLimit = 2 * time.Minute
	// grace is how long a check that exceeded its limit may take to clean up.
	grace = 10 * time.Second
	// mostHung is the number of hung checks after which the limits of the others shrink to hurry.
	mostHung = 3
	hurry    = 10 * time.Second
)

// Options select the checks of a suite to run, and how to run them.
type Options struct {
	// Run and Skip are regular expressions for the names of checks. Checks run that match Run and
	// do not match Skip. An empty Run matches all checks, an empty Skip none.
	Run, Skip string
	// Limit bounds each check; 0 is DefaultLimit. A check that does not end fails, and the run
	// continues without it. After three such checks the others have 10 s each.
	Limit time.Duration
	// Patience is how long a check waits for what the plugin has to do; 0 is DefaultPatience. A call
	// of the plugin that lasts longer than a third more than that fails its check, see Call.
	Patience time.Duration
	// FailFast ends the run after the first check that fails. The checks after it are not in the report.
	FailFast bool
	// Progress, if not nil, is called with each check that has ended, on the goroutine of Run.
	Progress func(Check)
}

// filter returns a function that reports whether a name is selected. It returns InvalidParams if an
// expression is invalid.
func (o Options) filter() (func(name string) bool, error) {
	var run, skip *regexp.Regexp
	for text, to := range map[*string]**regexp.Regexp{&o.Run: &run, &o.Skip: &skip} {
		if *text == "" {
			continue
		}
		re, err := regexp.Compile(*text)
		if err != nil {
			return nil, errs.New(errs.InvalidParams, "conformance", "the pattern for checks is not a regular expression: %w", err)
		}
		*to = re
	}
	return func(name string) bool {
		return (run == nil || run.MatchString(name)) && (skip == nil || !skip.MatchString(name))
	}, nil
}

// Run runs a suite, outside of `go test`, one check after the other, and reports on it.
// Checks that Options leave out are not in the report; those that did not run because ctx
// ended are in it, as skipped. InvalidParams for a pattern that is no regular expression or
// that chooses nothing.
//
// The first call of a program registers the flags of package testing with flag.CommandLine:
// the property checks need them.
func Run(ctx context.Context, s Suite, o Options) (Report, error) {
	chosen, err := o.filter()
	if err != nil {
		return Report{}, err
	}
	if o.Limit <= 0 {
		o.Limit = DefaultLimit
	}
	prepare()
	r := newReport(s)
	hung, vital := 0, ""
	for _, c := range s.Cases {
		if !chosen(c.Name) {
			continue
		}
		var result Check
		var measured []Figure
		switch {
		case c.Skip != "":
			result = Check{Status: Skip, Message: c.Skip}
		case ctx.Err() != nil:
			result = Check{Status: Skip, Message: "the run was ended: " + context.Cause(ctx).Error()}
		case vital != "":
			result = Check{Status: Skip, Message: fmt.Sprintf("the check %q failed, without which there is nothing to look at", vital)}
		default:
			var ended bool
			if result, measured, ended = one(ctx, c.Name, c, o); !ended {
				if hung++; hung == mostHung {
					o.Limit, o.Patience = min(o.Limit, hurry), min(cmp.Or(o.Patience, DefaultPatience), hurry/2)
				}
			}
			if c.Vital && result.Status == Fail {
				vital = c.Name
			}
		}
		result.Name, result.Rule = c.Name, c.Rule
		r.Checks = append(r.Checks, result)
		r.Figures = append(r.Figures, measured...)
		if o.Progress != nil {
			o.Progress(result)
		}
		if o.FailFast && result.Status == Fail {
			break
		}
	}
	if len(r.Checks) == 0 {
		return Report{}, errs.New(errs.InvalidParams, "conformance", "no check of the suite %s matches %q without %q", s.Name, o.Run, o.Skip)
	}
	r.Seconds = time.Since(r.Started).Seconds()
	return r, nil
}

// one runs one check under a name. ended is false for one that still runs.
func one(ctx context.Context, name string, c Case, o Options) (_ Check, _ []Figure, ended bool) {
	began := time.Now()
	t := newCheck(ctx, name)
	t.patience = o.Patience
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.run(c.Run)
	}()
	hangs, unwatch := t.watch()
	defer unwatch()
	timer := time.NewTimer(o.Limit)
	defer timer.Stop()
	ended, hung := true, false
	select {
	case <-done:
	case what := <-hangs:
		ended = t.abandon(done, what)
	case <-timer.C:
		why := fmt.Sprintf("it did not end within %v", o.Limit)
		if what := t.stuck(0); what != "" {
			why += ": " + what
		}
		hung = true
		ended = t.abandon(done, why)
	case <-ctx.Done():
		ended = t.abandon(done, "the run was ended while it ran: "+context.Cause(ctx).Error())
	}
	result, measured := t.seal()
	result.Hung = hung
	result.Seconds = time.Since(began).Seconds()
	return result, measured, ended
}

// abandon fails a check that did not end, cancels its context, and reports whether it then ends.
func (c *check) abandon(done <-chan struct{}, why string) bool {
	stacks := make([]byte, logLimit/2)
	c.details("the goroutines:\n" + string(stacks[:runtime.Stack(stacks, true)]))
	c.fail(why)
	c.cancel()
	select {
	case <-done:
		return true
	case <-time.After(min(grace, c.callLimit())):
		c.Log("it does not end with its context either, and is left behind")
		return false
	}
}

var preparing sync.Once

// prepare lets property checks run in a program that is no test.
func prepare() {
	if testing.Testing() {
		return
	}
	preparing.Do(func() {
		testing.Init() // rapid asks testing.Short.
		if !flag.Parsed() {
			_ = flag.CommandLine.Parse(nil)
		}
		// No files in the working directory, and no half minute for a smaller example.
		_ = flag.Set("rapid.nofailfile", "true")
		_ = flag.Set("rapid.shrinktime", "2s")
	})
}
