package app

import (
	"log/slog"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/kvevents"
	"github.com/mooncake-go/mooncake/core/master/tasks"
)

// masterConfig is the master's part of the configuration in the master's own terms.
func masterConfig(c config.Master) master.Config {
	out := master.DefaultConfig()
	out.LeaseTTL, out.ProbeTTL, out.ClientTTL = c.LeaseTTL, c.ProbeLeaseTTL, c.ClientTTL
	out.PutDiscardTimeout, out.PutReleaseTimeout = c.PutStartDiscardTimeout, c.PutStartReleaseTimeout
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
	out.MetricReporting = c.EnableMetricReporting
	return out
}

// kvEventsConfig is what is to be published of the objects.
func kvEventsConfig(c config.Master, log *slog.Logger) kvevents.Config {
	return kvevents.Config{
		Endpoint: c.KVEventsBindEndpoint, BackendID: c.KVEventsBackendID, QueueCapacity: c.KVEventsQueueCapacity,
		LegacyCompat: c.KVEventsEmitLegacyCompat, ObjectKey: c.KVEventsEmitObjectKey, Logger: log,
	}
}
