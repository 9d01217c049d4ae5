package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	benchtier "github.com/mooncake-go/mooncake/core/bench/tier"
	"github.com/mooncake-go/mooncake/core/observe"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func (e verbs) tierCmd() *cobra.Command {
	var format output.Format
	var out, mode string
	o := benchtier.Options{ID: plugin.ID{Kind: plugin.KindTier, Name: "file"}, Path: os.TempDir()}
	size := command.Size(1 << 20)
	cmd := &cobra.Command{
		Use:   "tier --path DIR",
		Short: "Measure a storage tier on a disk, with fio beside it",
		Long: `Writes records to a tier, and reads them in random order, at depths that a busy disk has. fio
does the same with a file beside it: direct I/O with io_uring where the kernel allows it, from memory
on huge pages where there are some (vm.nr_hugepages). The tier also computes and checks
checksums. Each figure is the median of the rounds. What is written is removed at the end.`,
		Example: `  mooncake bench tier --path /mnt/nvme0
  mooncake bench tier --path /mnt/nvme0 --records 4096 --rounds 9 -o json
  mooncake bench tier --path /mnt/nvme0 --io pread`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			o.RecordSize = int(size)
			o.Config = map[string]any{"io": mode}
			if o.Log, err = observe.NewLogger(e.Stderr, "warn", "text"); err != nil {
				return err
			}
			dirs, err := command.Absolute([]string{filepath.Dir(e.Program)})
			if err != nil {
				return err
			}
			if o.Catalog, err = pluginhost.New(e.Builtins, pluginhost.Options{Logger: o.Log, Dirs: dirs}); err != nil {
				return err
			}
			o.Note = func(line string) { fmt.Fprintln(e.Stderr, line) }
			ctx, stop := command.UntilInterrupted(cmd.Context())
			defer stop()
			figures, err := benchtier.Run(ctx, o)
			closing, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer done()
			if err = errors.Join(err, o.Catalog.Close(closing)); err != nil {
				return err
			}
			if out != "" {
				f, err := os.Create(out)
				if err != nil {
					return err
				}
				err = output.Print(f, output.JSON, figures, nil)
				if err = errors.Join(err, f.Close()); err != nil {
					return err
				}
			}
			return output.Print(e.Stdout, format, figures, func(w io.Writer) { figures.Text(w) })
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.Path, "path", o.Path, "folder on the disk to measure")
	f.IntVar(&o.Records, "records", 1024, "records of each round")
	f.Var(&size, "record-size", "size of a record")
	f.IntVar(&o.Rounds, "rounds", 5, "how often each figure is measured")
	f.BoolVar(&o.Subprocess, "subprocess", false, "also measure the tier as a process of its own, with the plugin binary beside this program")
	f.StringVar(&mode, "io", "auto", "how tier/file reads and writes: auto, io_uring or pread")
	output.Flag(f, &format, "", output.Table, output.JSON)
	f.StringVar(&out, "out", "", "also write the figures to this file, as JSON")
	return cmd
}
