package conformance

import "testing"

// Test runs the cases of a suite as parts of t, in their order, up to a vital one that fails. Each
// case is bounded as by Run with its defaults, four times as long with the race detector: one that
// hangs fails, and the next one runs.
func Test(t *testing.T, s Suite) {
	for _, c := range s.Cases {
		passed := t.Run(c.Name, func(t *testing.T) {
			if c.Skip != "" {
				t.Skip(c.Skip)
			}
			result, measured, _ := one(t.Context(), t.Name(), c, Options{Limit: slowdown * DefaultLimit, Patience: slowdown * DefaultPatience})
			for _, f := range measured {
				t.Logf("%s: %.6g %s", f.Name, f.Value, f.Unit)
			}
			result.tell(t, c.Rule)
		})
		if !passed && c.Vital {
			return
		}
	}
}

// tell gives t the result of its check. Logs and stacks are for `go test -v`.
func (c Check) tell(t *testing.T, rule string) {
	if testing.Verbose() && c.Log != "" {
		t.Log(c.Log)
	}
	switch c.Status {
	case Skip:
		t.Skip(c.Message)
	case Fail:
		if testing.Verbose() && c.Detail != "" {
			t.Log(c.Detail)
		}
		t.Errorf("%s\nthe rule: %s", c.Message, rule)
	}
}
