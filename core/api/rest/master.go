package rest

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/model"
)

// Master is what the admin port asks of the master. Safe for concurrent use.
type Master interface {
	// GetReplicas is the ordinary read path: it grants leases and counts.
	GetReplicas(ctx context.Context, keys []model.Key) ([]model.Result[model.Object], error)
	// PeekReplicas answers the same without a lease and without counting as an access.
	PeekReplicas(keys []model.Key) []model.Result[model.Object]
	// WalkKeys calls yield for every readable key until it returns false. It holds no
	// lock while yield runs and may miss keys that come or go meanwhile.
	WalkKeys(yield func(model.Key) bool)
	// Segments lists what is mounted.
	Segments(ctx context.Context) ([]model.SegmentInfo, error)
	// RemoveAll deletes everything that may be removed.
	RemoveAll(ctx context.Context, force bool) (int, error)
	// Summary is the text of the master's part of /metrics/summary and of the periodic
	// log line, in upstream's layout; rates are over the time since the last log line.
	Summary() string
	// Metrics is the source of /metrics.
	Metrics() prometheus.Gatherer
}
