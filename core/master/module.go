package master

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/master/kvevents"
	"github.com/mooncake-go/mooncake/core/master/metrics"
	"github.com/mooncake-go/mooncake/core/master/quota"
	"github.com/mooncake-go/mooncake/core/master/tasks"
	"github.com/mooncake-go/mooncake/core/metadata/open"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Module provides the master with its allocator and eviction policy. The two plugins start before
// it and stop after it.
func Module() fx.Option {
	return fx.Module("master", fx.Provide(providePlugins, provideService), fx.Invoke(func(*Service) {}))
}

// plugins are the plugins of a master.
type plugins struct {
	evict evict.Policy
	alloc alloc.Allocator
	// service replays its state into plugins that restart. It is made after them.
	service *Service
}

func providePlugins(lc fx.Lifecycle, cfg config.Config, catalog *pluginhost.Catalog, log *slog.Logger) (*plugins, error) {
	p := &plugins{}
	bounds := pluginhost.Supervision{CallTimeout: PluginTimeout}
	id := plugin.ID{Kind: plugin.KindEvict, Name: cfg.Master.Evictor}
	var err error
	p.evict, err = catalog.OpenEvict(context.Background(), id, pluginhost.SpecOf(cfg.Plugins.Get(id)), pluginhost.EvictOptions{
		Supervision: bounds,
		Replay:      func(ctx context.Context, to evict.Policy) error { return p.service.ReplayEvict(ctx, to) },
	})
	if err != nil {
		return nil, fmt.Errorf("master.evictor: %w", err)
	}
	lc.Append(fx.StartStopHook(startPlugin(p.evict.Start, id, log), p.evict.Stop))
	id = plugin.ID{Kind: plugin.KindAlloc, Name: cfg.Master.Allocator}
	p.alloc, err = catalog.OpenAlloc(context.Background(), id, pluginhost.SpecOf(cfg.Plugins.Get(id)), pluginhost.AllocOptions{
		Supervision: bounds,
		Replay:      func(ctx context.Context, to alloc.Allocator) error { return p.service.ReplayAlloc(ctx, to) },
	})
	if err != nil {
		return nil, fmt.Errorf("master.allocator: %w", err)
	}
	lc.Append(fx.StartStopHook(startPlugin(p.alloc.Start, id, log), p.alloc.Stop))
	return p, nil
}

func startPlugin(start func(context.Context, plugin.Host) error, id plugin.ID, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error { return start(ctx, pluginhost.HostOf(id, log)) }
}

func provideService(lc fx.Lifecycle, cfg config.Config, p *plugins, cleaner *open.Cleaner, events *kvevents.Publisher,
	tenants *quota.Keeper, status metrics.StatusFunc, log *slog.Logger,
) (*Service, error) {
	deps := Deps{Alloc: p.alloc, Evict: p.evict, Log: log, Tenants: tenants, Status: status, Standby: cfg.Master.EnableHA, Identities: cfg.Security.Identities()}
	if cleaner != nil {
		deps.Expired = cleaner.Remove
	}
	if events != nil {
		deps.Announcer = events
	}
	s, err := New(FromConfig(cfg.Master), deps)
	if err != nil {
		return nil, err
	}
	p.service = s
	lc.Append(fx.StartStopHook(s.Start, s.Stop))
	return s, nil
}

// writeGrace is Config.WriteGrace: a transfer of upstream's clients ends within a minute.
const writeGrace = time.Minute

// FromConfig returns the settings of the master in its own terms.
func FromConfig(c config.Master) Config {
	out := DefaultConfig()
	out.LeaseTTL, out.ProbeTTL, out.ClientTTL = c.LeaseTTL, c.ProbeLeaseTTL, c.ClientTTL
	out.SegmentRetention = c.SegmentRetention
	out.WriteGrace = writeGrace
	out.PutDiscardTimeout, out.PutReleaseTimeout = c.PutStartDiscardTimeout, c.PutStartReleaseTimeout
	out.MaxOpenPuts, out.MaxOpenRatio = c.MaxOpenPutsPerClient, c.MaxOpenRatioPerClient
	out.EvictionRatio, out.EvictionHighWatermark = c.EvictionRatio, c.EvictionHighWatermarkRatio
	out.SoftPinTTL, out.MaxSoftPinTTL = c.SoftPinTTL, c.MaxSoftPinTTL
	out.EvictSoftPinned = c.AllowEvictSoftPinnedObjects
	out.AllocationStrategy = c.AllocationStrategy
	out.StripeSize = uint64(c.StripeSize)
	out.History = c.WhyHistory
	out.Tasks = tasks.Config{
		MaxPending: c.MaxTotalPendingTasks, MaxProcessing: c.MaxTotalProcessingTasks, MaxFinished: c.MaxTotalFinishedTasks,
		PendingTimeout: c.PendingTaskTimeout, ProcessingTimeout: c.ProcessingTaskTimeout,
		MaxRetries: uint32(c.MaxRetryAttempts),
	}
	if c.EnableOffload || c.RootFSDir != "" {
		out.Tiers = &model.TierPolicy{QueueLimit: uint64(c.OffloadingQueueLimit), OnEvict: c.OffloadOnEvict, PromoteMost: uint32(c.PromotionMaxPerHeartbeat)}
		if c.RootFSDir != "" {
			out.Tiers.Folder, out.Tiers.Quota, out.Tiers.Keep = filepath.Join(c.RootFSDir, c.ClusterID), uint64(c.QuotaBytes), !c.EnableDiskEviction
		}
		out.MaxPromotions = c.PromotionQueueLimit
		if c.OffloadForceEvict {
			out.Saves = int(c.OffloadCapRatio * float64(c.OffloadingQueueLimit))
		}
		if c.PromotionOnHit {
			out.Tiers.PromoteAt = uint32(c.PromotionAdmissionThreshold)
		}
	}
	out.MetricReporting = c.EnableMetricReporting
	return out
}
