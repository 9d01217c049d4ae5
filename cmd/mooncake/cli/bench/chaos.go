package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bench/chaos"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/store"
)

// chaosAllocWait is how long a put waits for space, which restarts of a master hold back for a while.
const chaosAllocWait = 5 * time.Second

func (e verbs) chaosCmd() *cobra.Command {
	var format output.Format
	var file string
	o := defaultChaos()
	cmd := &cobra.Command{
		Use:   "chaos [FAULT...]",
		Short: "Kill and stop the processes of a pool under load, and count what is lost and what is wrong",
		Long: `Starts a master and two stores on this machine, each in a process of its own, puts pages that
prove themselves, reads them whole and in ranges and puts others all the time, and then applies a
fault. For each fault it measures how many of the keys are readable afterwards (in the worst round),
how many reads gave wrong bytes (of all rounds), the longest call, and the longest time in which no
whole read, no read of a range or no put succeeded.

Faults: ` + strings.Join(chaos.Names(), ", ") + ` (all by default). Those of a leader, of
masters and of etcd have three masters, of which the program etcd elects one. What was killed
is started again at once. What was stopped goes on after the pause. A cut link needs root and the
programs ip, nsenter and unshare; without them, and without etcd, rows are left out and a line says
why.

With --security mtls a client without a certificate also connects to all masters during the fault.

The exit code is 1 if a read was wrong, memory stayed in use, a client without a certificate was
answered, or a call of an upgrade failed twice.`,
		Example: `  mooncake bench chaos
  mooncake bench chaos master-kill master-term --rounds 10
  mooncake bench chaos --rounds 1 --pause 8s --client-ttl 3s -o json
  mooncake bench chaos store-kill store-stop --security mtls
  mooncake bench chaos upgrade --from /opt/mooncake-before/bin/mooncake`,
		ValidArgs: chaos.Names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Faults = args
			rows, err := e.runChaos(cmd.Context(), o)
			if err == nil && file != "" {
				err = writeFile(file, rows)
			}
			if len(rows) > 0 {
				err = errors.Join(err, output.Print(e.Stdout, format, rows, rows.Text))
			}
			return errors.Join(err, verdict(rows))
		},
	}
	chaosFlags(cmd, &o)
	cmd.Flags().StringVar(&o.From, "from", "", "program of another release, with which an upgrade begins")
	output.Flag(cmd.Flags(), &format, "", output.Table, output.JSON)
	cmd.Flags().StringVar(&file, "out", "", "also write the rows to this file, as JSON")
	return cmd
}

func (e verbs) haCmd() *cobra.Command {
	var format output.Format
	var file string
	o := defaultChaos()
	o.Rounds, o.Pause = 20, 5*time.Second
	cmd := &cobra.Command{
		Use:   "ha [FAULT...]",
		Short: "Kill and stop leaders under load, and measure the pause and what is kept",
		Long: `Runs the faults of 'mooncake bench chaos' that have three masters, of which the program etcd, or the
etcd members of the masters, elect one, and prints the longest pause of reads and puts and the share of the keys that were kept.

Faults: ` + strings.Join(chaos.ElectionNames(), ", ") + ` (all by default).

The exit code is 1 if a read was wrong, or with --security mtls a client without a certificate was answered.`,
		Example: `  mooncake bench ha
  mooncake bench ha leader-kill --rounds 5 --keys 4000 --page-size 4KiB`,
		ValidArgs: chaos.ElectionNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Faults = args; len(args) == 0 {
				o.Faults = chaos.ElectionNames()
			}
			rows, err := e.runChaos(cmd.Context(), o)
			events := rows.Events()
			if err == nil && file != "" {
				err = writeFile(file, events)
			}
			if len(rows) > 0 {
				err = errors.Join(err, output.Print(e.Stdout, format, events, events.Text))
			}
			return errors.Join(err, verdict(rows))
		},
	}
	chaosFlags(cmd, &o)
	output.Flag(cmd.Flags(), &format, "", output.Table, output.JSON)
	cmd.Flags().StringVar(&file, "out", "", "also write the events to this file, as JSON")
	return cmd
}

// chaosOptions are the options of a run, with sizes as flags take them.
type chaosOptions struct {
	chaos.Options
	page, segment command.Size
}

func defaultChaos() chaosOptions {
	o := chaos.Default()
	return chaosOptions{o, command.Size(o.PageSize), command.Size(o.SegmentSize)}
}

// runChaos runs the faults of the options until the command is interrupted.
func (e verbs) runChaos(ctx context.Context, from chaosOptions) (chaos.Rows, error) {
	o := from.Options
	o.PageSize, o.SegmentSize = int(min(from.page, 1<<30)), uint64(from.segment)
	if err := o.Validate(); err != nil {
		return nil, command.Usage(err)
	}
	o.Program, o.Environ, o.Open, o.Note = e.Program, command.WithoutPool(e.Environ), e.openChaos, e.step
	ctx, stop := command.UntilInterrupted(ctx)
	defer stop()
	return chaos.Run(ctx, o)
}

// verdict is the error of a run in which reads were wrong, memory was lost, or calls failed twice.
func verdict(rows chaos.Rows) error {
	if stuck := rows.Stuck(); stuck > 0 {
		return fmt.Errorf("bench: %d bytes of memory stayed in use after all keys were removed", stuck)
	}
	if wrong := rows.Wrong(); wrong > 0 {
		return fmt.Errorf("bench: %d reads gave wrong bytes", wrong)
	}
	if n := rows.Strangers(); n > 0 {
		return fmt.Errorf("bench: masters answered %d connections without a certificate", n)
	}
	if failed := rows.FailedTwice(); failed > 0 {
		return fmt.Errorf("bench: %d calls failed during an upgrade, and again when the process was back", failed)
	}
	return nil
}

func chaosFlags(cmd *cobra.Command, o *chaosOptions) {
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "how often each fault is applied, each time to a new pool")
	f.IntVar(&o.Keys, "keys", o.Keys, "keys that are put before the fault")
	f.Var(&o.page, "page-size", "size of a key's page")
	f.Var(&o.segment, "segment-size", "memory of each of the two stores")
	f.DurationVar(&o.Pause, "pause", o.Pause, "how long a process stands still, and a link is cut")
	f.DurationVar(&o.ClientTTL, "client-ttl", 0, "how long the master lets a store be silent (default the master's)")
	f.BoolVar(&o.Keep, "keep", o.Keep, "run 'mooncake keep' beside the stores, so that their memory outlives their processes")
	f.BoolVar(&o.Balance, "balance", o.Balance, "remove all keys after a round, and check that all memory is free then; not with --keep=false")
	f.StringVar(&o.KeepDir, "keep-dir", "", "in place of the keeper, let the stores have their memory in files in this directory of a tmpfs")
	f.IntVar(&o.Cells, "cells", o.Cells, "into how many cells elected masters cut the pool")
	f.StringVar(&o.Security, "security", "off", "how the processes prove who they are: off, tls or mtls, with certificates that live as long as the pool")
	f.StringVar(&o.Etcd, "etcd", o.Etcd, "program that elects one of several masters")
}

// openChaos opens a client of the harness: over tcp, as if it were on another machine.
func (e verbs) openChaos(ctx context.Context, master string, own config.Security) (store.Pool, func(context.Context) error, error) {
	loaded, err := config.Load(config.Options{Role: config.RoleClient, PluginDefaults: e.PluginDefaults()})
	if err != nil {
		return nil, nil, err
	}
	cfg := loaded.Config
	cfg.Store.MasterServerAddress, cfg.Store.MetadataServer, cfg.Store.LocalHostname = master, "P2PHANDSHAKE", "127.0.0.1"
	cfg.Store.Protocol, cfg.Store.Transports = "tcp", []string{"tcp"}
	cfg.Admin.Socket = config.SocketOff
	if own.On() {
		cfg.Security = own
	}
	c, err := app.OpenClient(ctx, cfg, e.Builtins, app.ClientOptions{Log: slog.New(slog.DiscardHandler), AllocWait: chaosAllocWait})
	if err != nil {
		return nil, nil, err
	}
	return c.Store, c.Close, nil
}

// writeFile writes v to a file as JSON.
func writeFile(path string, v any) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(output.WriteJSON(f, v), f.Close())
}
