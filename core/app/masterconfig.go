package app

import (
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/master"
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
	out.UnmountGrace = c.UnmountGrace
	out.History = c.WhyHistory
	out.Tasks = tasks.Config{
		MaxPending: c.MaxTotalPendingTasks, MaxProcessing: c.MaxTotalProcessingTasks, MaxFinished: c.MaxTotalFinishedTasks,
		PendingTimeout: c.PendingTaskTimeout, ProcessingTimeout: c.ProcessingTaskTimeout,
		MaxRetries: uint32(c.MaxRetryAttempts),
	}
	out.MetricReporting = c.EnableMetricReporting
	return out
}
