package app

import (
	"context"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/profiling"
)

// served reports whether profiles are served anywhere. The zero value serves none.
func served(d config.Debug) bool { return d.Pprof == config.PprofSocket || d.Pprof == config.PprofHTTP }

// onPort is what an HTTP port for operators serves of the profiles, nil for nothing.
func onPort(d config.Debug) *profiling.Handler {
	if d.Pprof != config.PprofHTTP {
		return nil
	}
	return profiling.New()
}

// sampling has the runtime note waits between start and stop, where profiles are served.
func sampling(d config.Debug) fx.Hook {
	if !served(d) || d.BlockProfileRate == 0 && d.MutexProfileFraction == 0 {
		return fx.Hook{}
	}
	off := func() {}
	return fx.Hook{
		OnStart: func(context.Context) error {
			off = profiling.Sample(d.BlockProfileRate, d.MutexProfileFraction)
			return nil
		},
		OnStop: func(context.Context) error { off(); return nil },
	}
}
