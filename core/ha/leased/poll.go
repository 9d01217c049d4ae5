package leased

import (
	"context"
	"log/slog"
	"time"

	"github.com/mooncake-go/mooncake/core/ha"
)

// Poll is ha.Directory.Watch for a service that tells no client of changes: it reads the view at each interval.
func Poll(ctx context.Context, interval time.Duration, view func(context.Context) (ha.View, error), changed func(ha.View), log *slog.Logger) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for told, failing := (*ha.View)(nil), false; ; {
		v, err := view(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			log.Warn("who leads is not known, asking again until it is", "error", err)
		case err == nil && (told == nil || *told != v):
			told = &v
			changed(v)
		}
		failing = err != nil
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}
