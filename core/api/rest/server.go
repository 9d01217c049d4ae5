package rest

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"github.com/mooncake-go/mooncake/core/internal/httpd"
)

// Server serves an HTTP face with a bound on every wait. It serves the metadata service as
// well as the admin port.
type Server struct{ s *httpd.Server }

// NewServer returns a server of h, which may be NewHandler's. log may be nil.
func NewServer(h http.Handler, log *slog.Logger) *Server {
	return &Server{s: httpd.New(h, httpd.Options{Logger: log})}
}

// Start serves on ln, which it closes in the end, and returns at once. Once.
func (s *Server) Start(ln net.Listener) { s.s.Start(ln) }

// Stop ends it: gracefully until ctx is done, then at once. Repeatable.
func (s *Server) Stop(ctx context.Context) error { return s.s.Stop(ctx) }
