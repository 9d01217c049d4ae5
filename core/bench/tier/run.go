// Package tier measures a storage tier, with the disk below it beside it as the program fio sees it.
package tier

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// job is one row: what a tier and fio do.
type job struct {
	name  string
	rw    string // of fio
	depth int
	do    func(v *volume, ctx context.Context, depth int) (speed, error)
}

func jobs() []job {
	return []job{
		{"write", "write", 8, (*volume).write},
		{"read", "randread", 32, (*volume).read},
		{"read", "randread", 8, (*volume).read},
	}
}

// Run measures. A round writes all records and reads them at each depth; fio does the same in turns
// with the tier. The figures are medians of the rounds. Run removes what it made below Path.
func Run(ctx context.Context, o Options) (figures Figures, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	note := o.Note
	if note == nil {
		note = func(string) {}
	}
	folder, err := os.MkdirTemp(o.Path, "mooncake-bench-tier-")
	if err != nil {
		return nil, errs.Wrap(errs.FileOpenFail, "bench tier", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	v, err := start(ctx, o, pluginhost.ModeAuto, folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.stop(context.WithoutCancel(ctx))) }()
	var process *volume
	if o.Subprocess {
		if process, err = start(ctx, o, pluginhost.ModeSubprocess, folder); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, process.stop(context.WithoutCancel(ctx))) }()
	}
	beside, disk := (*fio)(nil), ""
	if beside, err = newFio(ctx, o, folder); err != nil {
		note("the disk is not measured beside the tier: " + err.Error())
	} else {
		disk = beside.name()
	}
	list := jobs()
	ours, theirs, far := make([][]speed, len(list)), make([][]speed, len(list)), make([][]speed, len(list))
	for round := range o.Rounds {
		for i, j := range list {
			turns := []func() error{
				func() error { return measured(&ours[i], func() (speed, error) { return j.do(v, ctx, j.depth) }) },
			}
			if beside != nil {
				turns = append(turns, func() error {
					return measured(&theirs[i], func() (speed, error) { return beside.measure(ctx, j.rw, j.depth) })
				})
			}
			if process != nil {
				turns = append(turns, func() error { return measured(&far[i], func() (speed, error) { return j.do(process, ctx, j.depth) }) })
			}
			if round%2 == 1 {
				slices.Reverse(turns)
			}
			for _, turn := range turns {
				if err := turn(); err != nil {
					return nil, fmt.Errorf("bench tier: %s at depth %d: %w", j.name, j.depth, err)
				}
			}
		}
		note(fmt.Sprintf("round %d of %d", round+1, o.Rounds))
	}
	rate := func(s speed) float64 { return s.MBPerS }
	for i, j := range list {
		label := fmt.Sprintf("%s of %d KiB at depth %d", j.name, o.RecordSize>>10, j.depth)
		figures = append(figures, figure(label, "MB/s", ">= 0.95 of the disk", ours[i], theirs[i], disk, rate))
		if j.name == "read" && j.depth == maxDepth {
			figures = append(figures, figure("processor time of "+label, "s/GB", "<= 0.06 s/GB without checksums", ours[i], theirs[i], disk, func(s speed) float64 { return s.CPUPerGB }))
		}
		if process != nil {
			figures = append(figures, figure(label+", as a subprocess", "MB/s", ">= 0.95 of in process", far[i], ours[i], "in process", rate))
		}
	}
	return figures, nil
}

func measured(out *[]speed, f func() (speed, error)) error {
	s, err := f()
	*out = append(*out, s)
	return err
}

// start starts the tier in a folder of its own, and registers memory.
func start(ctx context.Context, o Options, mode pluginhost.Mode, folder string) (*volume, error) {
	path, err := os.MkdirTemp(folder, "tier-")
	if err != nil {
		return nil, errs.Wrap(errs.FileOpenFail, "bench tier", err)
	}
	settings := map[string]any{"path": path, "capacity_bytes": uint64(o.Records) * (uint64(o.RecordSize) + minRecordSize) * 5 / 4}
	maps.Copy(settings, o.Config)
	t, err := o.Catalog.OpenTier(ctx, o.ID, pluginhost.Spec{Mode: mode, Config: settings}, pluginhost.TierOptions{})
	if err != nil {
		return nil, err
	}
	if err := t.Start(ctx, pluginhost.HostOf(o.ID, o.Log)); err != nil {
		return nil, err
	}
	v, err := open(ctx, t, o.Records, o.RecordSize, maxDepth)
	if err != nil {
		return nil, errors.Join(err, t.Stop(context.WithoutCancel(ctx)))
	}
	return v, nil
}
