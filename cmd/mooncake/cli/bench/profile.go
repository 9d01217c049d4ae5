package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bench/profile"
	"github.com/mooncake-go/mooncake/core/config"
)

// maxProfileSeconds bounds --seconds.
const maxProfileSeconds = 600

func (e verbs) profileCmd() *cobra.Command {
	var dir string
	var seconds int
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "Write CPU, allocation, mutex and block profiles of a store and a master under load",
		Long: `Puts objects into a store over tcp, gets them, and makes each kind of call to a master, and
writes for each of the three what this process spent its time and memory on: DIR/LOAD/KIND.pprof
for 'go tool pprof', which draws flame graphs of them. Client, store and master run in this
process, so that a profile has both ends.`,
		Example: `  mooncake bench profile
  mooncake bench profile --out /tmp/profile --seconds 5`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seconds < 1 || seconds > maxProfileSeconds {
				return command.Usagef("--seconds is %d, want 1 to %d", seconds, maxProfileSeconds)
			}
			ctx, stop := command.UntilInterrupted(cmd.Context())
			defer stop()
			record := func(l profile.Load) error {
				fmt.Fprintf(e.Stderr, "%s for %d s\n", l.Name, seconds)
				return profile.Record(ctx, dir, l, time.Duration(seconds)*time.Second)
			}
			if err := errors.Join(e.profileStore(ctx, record), e.profileMaster(ctx, record)); err != nil {
				return fmt.Errorf("bench profile: %w", err)
			}
			fmt.Fprintf(e.Stdout, "profiles are in %s; for a flame graph of one: go tool pprof -http localhost: %s\n",
				dir, filepath.Join(dir, "store-get", "cpu.pprof"))
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&dir, "out", "dist/profile", "folder to write to")
	f.IntVar(&seconds, "seconds", 15, "how long each of the three loads is profiled")
	return cmd
}

// profileMaster profiles the calls to a master.
func (e verbs) profileMaster(ctx context.Context, record func(profile.Load) error) (err error) {
	m, err := e.startMaster(ctx, nil, func(*config.Master) {})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close(context.WithoutCancel(ctx))) }()
	return record(profile.Master(m.Client))
}

// profileStore profiles puts and gets of a client whose objects are in the memory of another
// node.
func (e verbs) profileStore(ctx context.Context, record func(profile.Load) error) (err error) {
	m, err := e.startMaster(ctx, nil, func(*config.Master) {})
	if err != nil {
		return err
	}
	end := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, m.Close(end)) }()
	loaded, err := config.Load(config.Options{Role: config.RoleClient, PluginDefaults: e.PluginDefaults()})
	if err != nil {
		return err
	}
	cfg := loaded.Config
	cfg.Store.MasterServerAddress, cfg.Store.LocalHostname, cfg.Store.MetadataServer = m.Address(), "127.0.0.1", "P2PHANDSHAKE"
	cfg.Store.Protocol, cfg.Store.Transports = "tcp", []string{"tcp"} // and no shared memory
	cfg.Store.GlobalSegmentSize, cfg.Store.LocalBufferSize, cfg.Store.EnableHTTPServer = profile.PoolBytes, 0, false
	quiet := slog.New(slog.DiscardHandler)
	node, err := app.OpenNode(ctx, cfg, e.Builtins, app.NodeOptions{Log: quiet})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close(end)) }()
	cfg.Store.GlobalSegmentSize = 0
	client, err := app.OpenClient(ctx, cfg, e.Builtins, app.ClientOptions{Log: quiet})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close(end)) }()
	load, err := profile.NewStore(ctx, client.Store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, load.Close(end)) }()
	return errors.Join(record(load.Puts()), record(load.Gets()))
}
