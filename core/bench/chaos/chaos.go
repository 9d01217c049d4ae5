// Package chaos breaks pools of real processes on this machine and measures what it does to their
// clients: a master and two stores hold pages that prove themselves, clients read them whole and in
// ranges and put others, and then a process is killed or stopped, or a link is cut.
package chaos

import (
	"context"
	"errors"
	"fmt"
)

// Run applies the faults one after the other and returns a row for each. A fault that this machine
// cannot have is left out, and Options.Note says why. Every process that a round started has ended
// when Run returns. The rows are valid with an error, which ends the run.
func Run(ctx context.Context, opts Options) (Rows, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	rows := Rows{}
	for _, f := range opts.selected() {
		var row Row
		for n := range opts.Rounds {
			r, err := newRound(ctx, opts, f.on)
			if reason := (*unable)(nil); errors.As(err, &reason) {
				opts.Note(f.title + " is left out: " + reason.Error())
				break
			}
			var one Row
			if err == nil {
				one, err = r.run(ctx, f.clients, f.strike)
				err = errors.Join(err, r.close())
			}
			if err != nil {
				return rows, fmt.Errorf("chaos: %s, round %d: %w", f.title, n+1, err)
			}
			opts.Note(fmt.Sprintf("%s, round %d of %d: %d of %d keys readable, %d reads wrong, longest call %s (%s), no %s succeeded for %s",
				f.title, n+1, opts.Rounds, one.Readable, one.Keys, one.Wrong, seconds(one.LongestCallMS), one.slowest, one.silent, seconds(one.OutageMS)))
			one.Fault = f.title
			row.add(one)
		}
		if row.Rounds > 0 {
			rows = append(rows, row)
		}
	}
	return rows, nil
}
