// Package tier measures a storage tier, with the disk below it beside it as the program fio sees it.
package tier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// Options says what to measure.
type Options struct {
	// Catalog has the tier.
	Catalog *pluginhost.Catalog
	ID      plugin.ID
	// Config has settings of the tier, beside path and capacity_bytes: a folder of its own below Path,
	// with space for the records.
	Config map[string]any
	// Path is a folder on the disk to measure.
	Path string
	// Records of RecordSize bytes are written and read in each round.
	Records, RecordSize int
	Rounds              int
	Log                 *slog.Logger
	// Note takes lines about the progress and what is missing; nil for none.
	Note func(string)
}

// The bounds of Options.
const (
	maxRecords    = 1 << 20
	minRecordSize = 4 << 10
	maxRecordSize = 64 << 20
	maxRounds     = 100
)

func (o Options) validate() error {
	bad := func(format string, args ...any) error {
		return errs.New(errs.InvalidParams, "bench tier", format, args...)
	}
	switch {
	case o.Records < maxDepth || o.Records > maxRecords:
		return bad("%d records, want %d to %d", o.Records, maxDepth, maxRecords)
	case o.RecordSize < minRecordSize || o.RecordSize > maxRecordSize || o.RecordSize%minRecordSize != 0:
		return bad("records of %d bytes, want a multiple of %d up to %d", o.RecordSize, minRecordSize, maxRecordSize)
	case o.Rounds < 1 || o.Rounds > maxRounds:
		return bad("%d rounds, want 1 to %d", o.Rounds, maxRounds)
	}
	info, err := os.Stat(o.Path)
	switch {
	case err != nil:
		return errs.WithHint(errs.Wrap(errs.InvalidParams, "bench tier", err), "give a folder on the disk to measure: --path /mnt/nvme0")
	case !info.IsDir():
		return bad("%s is not a folder", o.Path)
	}
	return nil
}

// Figure is a measurement beside another one.
type Figure struct {
	Figure     string   `json:"figure"`
	Ours       float64  `json:"ours"`
	Beside     *float64 `json:"beside"`
	BesideName string   `json:"beside_name"`
	Ratio      *float64 `json:"ratio"`
	Goal       string   `json:"goal"`
	Unit       string   `json:"unit"`
}

// Figures are printed as a table.
type Figures []Figure

// Text writes the table.
func (f Figures) Text(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FIGURE\tOURS\tBESIDE\tRATIO\tGOAL")
	for _, x := range f {
		beside, ratio := "-", "-"
		if x.Beside != nil {
			beside = fmt.Sprintf("%.4g %s (%s)", *x.Beside, x.Unit, x.BesideName)
			ratio = fmt.Sprintf("%.2f", *x.Ratio)
		}
		fmt.Fprintf(t, "%s\t%.4g %s\t%s\t%s\t%s\n", x.Figure, x.Ours, x.Unit, beside, ratio, x.Goal)
	}
	_ = t.Flush() // The error is that of w, which the caller has.
}

const maxDepth = 32

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
	t, err := start(ctx, o, folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Stop(context.WithoutCancel(ctx))) }()
	v, err := open(ctx, t, o.Records, o.RecordSize, maxDepth)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.close(context.WithoutCancel(ctx))) }()
	beside, err := newFio(ctx, o, folder) // The tier has its huge pages already.
	if err != nil {
		note("the disk is not measured beside the tier: " + err.Error())
	}
	list := jobs()
	ours, theirs := make([][]speed, len(list)), make([][]speed, len(list))
	for round := range o.Rounds {
		for i, j := range list {
			turns := []func() error{
				func() error { return measured(&ours[i], func() (speed, error) { return j.do(v, ctx, j.depth) }) },
				func() error {
					if beside == nil {
						return nil
					}
					return measured(&theirs[i], func() (speed, error) { return beside.measure(ctx, j.rw, j.depth) })
				},
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
	for i, j := range list {
		label := fmt.Sprintf("%s of %d KiB at depth %d", j.name, o.RecordSize>>10, j.depth)
		figures = append(figures, figure(label, "MB/s", ">= 0.95 of the disk", ours[i], theirs[i], beside, func(s speed) float64 { return s.MBPerS }))
		if j.name == "read" && j.depth == maxDepth {
			figures = append(figures, figure("processor time of "+label, "s/GB", "<= 0.06 s/GB without checksums", ours[i], theirs[i], beside, func(s speed) float64 { return s.CPUPerGB }))
		}
	}
	return figures, nil
}

func measured(out *[]speed, f func() (speed, error)) error {
	s, err := f()
	*out = append(*out, s)
	return err
}

func figure(name, unit, goal string, ours, theirs []speed, beside *fio, of func(speed) float64) Figure {
	f := Figure{Figure: name, Unit: unit, Goal: goal, Ours: median(ours, of)}
	if beside != nil {
		b := median(theirs, of)
		r := f.Ours / b
		f.Beside, f.BesideName, f.Ratio = &b, beside.name(), &r
	}
	return f
}

func median(all []speed, of func(speed) float64) float64 {
	values := make([]float64, len(all))
	for i, s := range all {
		values[i] = of(s)
	}
	slices.Sort(values)
	if n := len(values); n%2 == 0 {
		return (values[n/2-1] + values[n/2]) / 2
	}
	return values[len(values)/2]
}

// start starts the tier in a folder of its own.
func start(ctx context.Context, o Options, folder string) (tier.Tier, error) {
	settings := map[string]any{"path": folder, "capacity_bytes": uint64(o.Records) * (uint64(o.RecordSize) + minRecordSize) * 5 / 4}
	maps.Copy(settings, o.Config)
	t, err := o.Catalog.OpenTier(ctx, o.ID, pluginhost.Spec{Config: settings}, pluginhost.TierOptions{})
	if err != nil {
		return nil, err
	}
	return t, t.Start(ctx, pluginhost.HostOf(o.ID, o.Log))
}
