package app

import (
	"context"
	"log/slog"
	"net/http"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/api/rest"
)

// httpFace is one HTTP port of a role.
type httpFace struct {
	what string
	host string
	port int
	flag string
}

// serve binds the port when the role starts and stops serving when it ends.
func (f httpFace) serve(lc fx.Lifecycle, log *slog.Logger, h http.Handler) {
	server := rest.NewServer(h, log)
	lc.Append(fx.Hook{
		OnStart: func(ctx context.Context) error {
			ln, err := listen(ctx, f.what, f.host, f.port, f.flag)
			if err != nil {
				return err
			}
			server.Start(ln)
			log.Info(f.what+" is serving", "address", ln.Addr().String())
			return nil
		},
		OnStop: server.Stop,
	})
}
