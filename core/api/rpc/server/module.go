package server

import (
	"context"
	"log/slog"
	"time"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/ports"
	"github.com/mooncake-go/mooncake/core/store"
)

// Observer is a master that counts its calls.
type Observer interface {
	store.Master
	ObserveRPC(method string, took time.Duration)
	ObserveForeign(protocol string)
	// ObserveRequestMemory counts the memory of large requests, ObserveRequestWait those that wait
	// for it, ObserveConnClosed the connections that were closed because there were too many.
	ObserveRequestMemory(bytes int64)
	ObserveRequestWait()
	ObserveConnClosed(why string)
	// Quiesce refuses further calls and has the ledgers learn what was answered.
	Quiesce(ctx context.Context)
}

// Module serves a master. It is the last module of the role, so that a client that reaches
// the port finds a complete master.
func Module() fx.Option {
	return fx.Module("api/rpc/server", fx.Provide(provideServer), fx.Invoke(func(*Port) {}))
}

func provideServer(lc fx.Lifecycle, cfg config.Config, m Observer, log *slog.Logger, fail ports.Failer) *Port {
	p := NewPort(cfg.Master, m, log, fail)
	lc.Append(fx.StartStopHook(p.Open, func(ctx context.Context) {
		m.Quiesce(ctx)
		p.Close(ctx)
	}))
	return p
}
