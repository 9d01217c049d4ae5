package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bench/demo"
	"github.com/mooncake-go/mooncake/core/bench/worker"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/observe"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// NewWorker makes the verb of a worker process of the demo, which reads its job from standard
// input and writes events to standard output.
func NewWorker(e *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:    "demo-worker",
		Short:  "A worker process of the demo",
		Hidden: true,
		Args:   command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			job, err := demo.ReadJob(e.Stdin)
			if err != nil {
				return command.Usage(err)
			}
			flags, _, err := config.ParseArgs(config.RoleClient, job.Settings)
			if err != nil {
				return command.Usage(err)
			}
			loaded, err := config.Load(config.Options{Role: config.RoleClient, Flags: flags, PluginDefaults: e.PluginDefaults()})
			if err != nil {
				return command.Usage(err)
			}
			cfg := loaded.Config
			cfg.Store.MasterServerAddress, cfg.Store.MetadataServer = job.Master, job.Metadata
			cfg.Store.LocalHostname, cfg.Store.Checksum = "127.0.0.1", job.Checksum
			if job.Security.Mode != "" {
				cfg.Security = job.Security
			}
			if job.Protocol != "" {
				cfg.Store.Protocol, cfg.Store.Transports = job.Protocol, []string{job.Protocol}
				cfg.Plugins.Transport = map[string]config.Plugin{job.Protocol: transportEntry(cfg, job)} // with the user's settings of it
			}
			cfg.Plugins.Dirs = job.PluginDirs
			cfg.Admin.Socket = config.SocketOn // It shows in `plugins list` like the rest of the pool.
			log, err := observe.NewLogger(e.Stderr, "info", "text")
			if err != nil {
				return err
			}
			ctx, stop := command.UntilInterrupted(cmd.Context())
			defer stop()
			c, err := app.OpenClient(ctx, cfg, e.Builtins, app.ClientOptions{Log: log, AllocWait: job.AllocWait})
			if err != nil {
				return err
			}
			var pool worker.Pool = &demoPool{c: c.Store, client: c}
			if job.Tiers {
				pool = &tieredPool{demoPool: demoPool{c: c.Store, client: c}, evict: job.TiersEvict}
			}
			err = job.Serve(ctx, pool, e.Stdout)
			return errors.Join(err, c.Close(context.WithoutCancel(ctx)))
		},
	}
}

// transportEntry returns the configured entry of the demo's transport with the mode of the job.
func transportEntry(cfg config.Config, job demo.Job) config.Plugin {
	entry := cfg.Plugins.Get(plugin.ID{Kind: plugin.KindTransport, Name: job.Protocol})
	entry.Mode, entry.Required = cmp.Or(job.TransportMode, entry.Mode), true
	if len(job.Transport) > 0 {
		settings := maps.Clone(entry.Config)
		if settings == nil {
			settings = map[string]any{}
		}
		for k, v := range job.Transport {
			settings[k] = v
		}
		entry.Config = settings
	}
	return entry
}

// demoPool makes a store client the pool of a worker.
type demoPool struct {
	c      *client.Client
	client *app.Client
}

// Plugins implements worker.Plugged.
func (p *demoPool) Plugins() []pluginhost.Instance { return p.client.Plugins() }

// Exist implements worker.Pool.
func (p *demoPool) Exist(ctx context.Context, keys []string) ([]bool, error) {
	out := make([]bool, len(keys))
	for i, r := range p.c.BatchExist(ctx, keys) {
		if r.Err != nil {
			return nil, r.Err
		}
		out[i] = r.Value
	}
	return out, nil
}

// GetInto implements worker.Pool.
func (p *demoPool) GetInto(ctx context.Context, keys []string, dst [][]byte) []error {
	out := make([]error, len(keys))
	for i, r := range p.c.BatchGetInto(ctx, keys, dst) {
		out[i] = r.Err
	}
	return out
}

// PutFrom implements worker.Pool.
func (p *demoPool) PutFrom(ctx context.Context, keys []string, src [][]byte) []error {
	return p.c.BatchPut(ctx, keys, src, model.DefaultReplicateConfig())
}

// Buffer implements worker.Pool with one block of registered memory.
func (p *demoPool) Buffer(n, size int) (pages [][]byte, release func(), err error) {
	block, err := memory.Allocate(uint64(n)*uint64(size), memory.Options{Name: "mooncake-demo-pages"})
	if err != nil {
		return nil, nil, err
	}
	mem := block.Bytes()
	if err := p.c.RegisterMemory(context.Background(), transfer.BlockMemory(block, 0)); err != nil {
		return nil, nil, errors.Join(err, block.Close())
	}
	for i := range n {
		pages = append(pages, mem[i*size:(i+1)*size:(i+1)*size])
	}
	return pages, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := p.c.UnregisterBuffer(ctx, mem); err == nil {
			_ = block.Close() // The process ends next, so no caller needs the error.
		}
	}, nil
}

// tieredPool is a demoPool with storage tiers. evict says that an object may leave its tier soon after it was saved.
type tieredPool struct {
	demoPool

	evict bool
}

// TierReads implements worker.Tiered.
func (p *tieredPool) TierReads() uint64 { return p.c.TierReads() }

const (
	// savePause is the pause between two questions whether objects are saved.
	savePause = 2 * time.Millisecond
	// calm is how long no object must have been saved until those that are on no tier count as saved and evicted, if tiers evict.
	calm = 100 * time.Millisecond
)

// Saved implements worker.Tiered. It asks in a way that grants no lease, which would protect the objects.
func (p *tieredPool) Saved(ctx context.Context, keys []string) error {
	ticker := time.NewTicker(savePause)
	defer ticker.Stop()
	why := errors.New("the master has not answered")
	for left, changed := slices.Clone(keys), time.Now(); ; {
		before := len(left)
		left = slices.DeleteFunc(left, func(key string) bool {
			story, err := p.c.Why(ctx, key)
			switch {
			case err == nil && !saved(&story):
				why = fmt.Errorf("it is %s, and on no storage tier", story.Fate)
			case err != nil && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded):
				why = err
			}
			return err == nil && saved(&story)
		})
		if len(left) < before {
			changed = time.Now()
		}
		if len(left) == 0 || p.evict && time.Since(changed) >= calm {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errs.WithHint(errs.Wrap(errs.RPCTimeout, "wait until "+store.Quote(left[0])+" is saved", why), "--logs shows what the stores log")
		}
	}
}

// saved reports whether an object is on a storage tier, or will never be: it is gone, or lies in several extents because
// memory was full.
func saved(s *model.Story) bool {
	switch s.Fate {
	case model.FateReadable:
		return !s.Copying && slices.ContainsFunc(s.Replicas, func(r model.Replica) bool { return r.OnTier() || len(r.More) > 0 })
	case model.FateWriting:
		return false
	default:
		return true
	}
}
