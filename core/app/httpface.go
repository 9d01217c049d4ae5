package app

import (
	"context"
	"log/slog"
	"net/http"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/internal/profiling"
)

// httpFace is one HTTP port of a role.
type httpFace struct {
	what string
	host string
	port int
	flag string
	// profiles are served beside what the face is for, nil for none.
	profiles *profiling.Handler
}

// serve binds the port when the role starts and stops serving when it ends.
func (f httpFace) serve(lc fx.Lifecycle, log *slog.Logger, h http.Handler) {
	if f.profiles != nil {
		h = f.profiles.Over(h)
	}
	server := rest.NewServer(h, log)
	lc.Append(fx.Hook{
		OnStart: func(ctx context.Context) error {
			ln, err := listen(ctx, f.what, f.host, f.port, f.flag)
			if err != nil {
				return err
			}
			server.Start(ln)
			log.Info(f.what+" is serving", "address", ln.Addr().String())
			if f.profiles != nil {
				log.Warn(f.what+" serves profiles to whoever reaches it: debug.pprof is http", "address", ln.Addr().String())
			}
			return nil
		},
		OnStop: func(ctx context.Context) error {
			if f.profiles != nil {
				f.profiles.Stop()
			}
			return server.Stop(ctx)
		},
	})
}
