package transfer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/bench/transfer"
)

// initiator measures one load. An interrupted run says what it measured.
func (b *run) initiator(ctx context.Context) (err error) {
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
func (b *run) say(row transfer.Row, sample transfer.Sample) error {
	if b.f.format != output.Text {
		return row.WriteLine(b.e.Stdout)
	}
	out := b.e.Stdout
	if b.f.upstream {
		out = b.e.Stderr // where upstream's program says it, and scripts look for it
	}
	_, err := fmt.Fprintln(out, transfer.Line(sample, b.job.unit, int(b.f.precision)))
	return err
}

// plan is the sweep that the flags ask for, with size bytes of memory on either side.
func (b *run) plan(size uint64) transfer.Plan {
	return transfer.Plan{
		Transports: b.job.transports, Streams: b.job.streams, Loads: b.job.loads, Segment: b.f.segment, Buffer: size,
		Rounds: b.f.rounds, Round: b.job.round, WarmUp: b.f.warmUp, Verify: b.job.check, Limits: b.f.limits, Async: b.f.async,
		Open:   b.open,
		Target: func(transport string) cluster.Spec { return b.targetSpec(transport, size) },
		Note:   func(text string) { fmt.Fprintln(b.e.Stderr, text) },
	}
}

// sweep measures every combination and prints a report, also of what was measured before
// an error.
func (b *run) sweep(ctx context.Context) error {
	p := b.plan(uint64(b.f.buffer))
	var failed error
	p.Each = func(row transfer.Row) {
		if b.f.format == lines {
			failed = errors.Join(failed, row.WriteLine(b.e.Stdout))
			return
		}
		fmt.Fprintf(b.e.Stderr, "measured %s\n", summary(row))
	}
	total := len(p.Loads) * len(p.Transports)
	rep, err := p.Run(ctx)
	switch {
	case len(rep.Results) == 0:
	case b.f.format != lines:
		failed = errors.Join(failed, output.Print(b.e.Stdout, b.f.format, rep, rep.Text))
	}
	if rep.Interrupted {
		return errors.Join(fmt.Errorf("interrupted after %d of at least %d combinations", len(rep.Results), total), failed)
	}
	return errors.Join(err, failed)
}

func summary(r transfer.Row) string {
	text := fmt.Sprintf("%s %s, %d B x %d x %d threads", r.Transport, r.Operation, r.BlockSize, r.BatchSize, r.Threads)
	if r.Streams > 0 {
		text = strings.Replace(text, r.Transport, fmt.Sprintf("%s/%d", r.Transport, r.Streams), 1)
	}
	if r.Skipped != "" {
		return text + ": left out, " + r.Skipped
	}
	return fmt.Sprintf("%s: %.3f GB/s", text, r.GBps)
}

// target opens memory to peers until the context ends.
func (b *run) target(ctx context.Context) (err error) {
	name, size := b.job.transports[0], uint64(b.f.buffer)
	if name == transfer.LocalTransport {
		return command.Usagef("--protocol=local is memory of one process; there is no target to start")
	}
	if b.f.upstream { // An initiator may count on it.
		size = b.enlarged()
	}
	node, stop, err := b.open(ctx, name, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop(context.WithoutCancel(ctx))) }()
	t, err := transfer.NewTarget(ctx, node, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close(ctx)) }()
	fmt.Fprintln(b.e.Stdout, transfer.Announce(t, name))
	<-ctx.Done()
	return nil
}
