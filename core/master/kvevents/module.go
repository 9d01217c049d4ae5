package kvevents

import (
	"fmt"
	"log/slog"
	"strings"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
)

// Module provides the publisher of KV events, nil unless the configuration asks for events.
func Module() fx.Option { return fx.Module("master/kvevents", fx.Provide(providePublisher)) }

func providePublisher(lc fx.Lifecycle, cfg config.Config, d *doors.Doors, log *slog.Logger) (*Publisher, error) {
	if !cfg.Master.EnableKVEvents {
		return nil, nil
	}
	if strings.HasPrefix(cfg.Master.KVEventsBindEndpoint, "tcp://") {
		if err := d.Allow(config.DoorKVEvents, "KV events are published in plaintext"); err != nil {
			return nil, err
		}
	}
	p, err := New(FromConfig(cfg.Master, log))
	if err != nil {
		return nil, fmt.Errorf("master.kv_events_bind_endpoint: %w", err)
	}
	lc.Append(fx.StartStopHook(p.Start, p.Stop))
	return p, nil
}

// FromConfig returns the settings of the publisher.
func FromConfig(c config.Master, log *slog.Logger) Config {
	return Config{
		Endpoint: c.KVEventsBindEndpoint, BackendID: c.KVEventsBackendID, QueueCapacity: c.KVEventsQueueCapacity,
		LegacyCompat: c.KVEventsEmitLegacyCompat, ObjectKey: c.KVEventsEmitObjectKey, Logger: log,
	}
}
