package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/bench/cluster"
	bench "github.com/mooncake-go/mooncake/core/bench/transfer"
)

// initiator measures one load. An interrupted run says what it measured.
func (b *transferBench) initiator(ctx context.Context) (err error) {
	name, load, size := b.job.transports[0], b.job.loads[0], b.enlarged()
	streams := 0
	if name == "tcp" && len(b.job.streams) > 0 {
		streams = b.job.streams[0]
	}
	node, stop, err := b.open(ctx, name, streams)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop(context.WithoutCancel(ctx))) }()
	s, done, err := b.plan(size).Session(ctx, node, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	sample, content, runErr := s.Once(ctx, load, b.job.round, b.job.check)
	if sample.Batches > 0 {
		runErr = errors.Join(runErr, b.say(s.RowOf(load, name, streams, sample, content), sample))
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted after %s of %s", sample.Elapsed.Round(time.Millisecond), b.job.round)
	}
	return runErr
}

// say prints the result of one load.
func (b *transferBench) say(row bench.Row, sample bench.Sample) error {
	if b.f.format != output.Text {
		return row.WriteLine(b.e.Stdout)
	}
	out := b.e.Stdout
	if b.f.upstream {
		out = b.e.Stderr // where upstream's program says it, and scripts look for it
	}
	_, err := fmt.Fprintln(out, bench.Line(sample, b.job.unit, int(b.f.precision)))
	return err
}

// plan is the sweep that the flags ask for, with size bytes of memory on either side.
func (b *transferBench) plan(size uint64) bench.Plan {
	return bench.Plan{
		Transports: b.job.transports, Streams: b.job.streams, Loads: b.job.loads, Segment: b.f.segment, Buffer: size,
		Rounds: b.f.rounds, Round: b.job.round, WarmUp: b.f.warmUp, Verify: b.job.check, Limits: b.f.limits, Async: b.f.async,
		Open:   b.open,
		Target: func(transport string) cluster.Spec { return b.targetSpec(transport, size) },
		Note:   func(text string) { fmt.Fprintln(b.e.Stderr, text) },
	}
}

// sweep measures every combination and prints a report, also of what was measured before
// an error.
func (b *transferBench) sweep(ctx context.Context) error {
	p := b.plan(uint64(b.f.buffer))
	var failed error
	p.Each = func(row bench.Row) {
		if b.f.format == output.Format("jsonl") {
			failed = errors.Join(failed, row.WriteLine(b.e.Stdout))
			return
		}
		fmt.Fprintf(b.e.Stderr, "measured %s\n", summary(row))
	}
	total := len(p.Loads) * len(p.Transports)
	rep, err := p.Run(ctx)
	switch {
	case len(rep.Results) == 0:
	case b.f.format == output.JSON:
		failed = errors.Join(failed, rep.WriteJSON(b.e.Stdout))
	case b.f.format == output.Text:
		failed = errors.Join(failed, rep.WriteTable(b.e.Stdout))
	}
	if rep.Interrupted {
		return errors.Join(fmt.Errorf("interrupted after %d of at least %d combinations", len(rep.Results), total), failed)
	}
	return errors.Join(err, failed)
}

func summary(r bench.Row) string {
	text := fmt.Sprintf("%s %s, %d B x %d x %d threads", r.Transport, r.Operation, r.BlockSize, r.BatchSize, r.Threads)
	if r.Streams > 0 {
		text = strings.Replace(text, r.Transport, fmt.Sprintf("%s/%d", r.Transport, r.Streams), 1)
	}
	if r.Skipped != "" {
		return text + ": left out, " + r.Skipped
	}
	return fmt.Sprintf("%s: %.3f GB/s", text, r.GBps)
}
