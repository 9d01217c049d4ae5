// Package introspect is the admin socket of a process: a unix socket on which the
// commands of the same machine ask what runs in it, and have a plugin loaded anew. It
// speaks HTTP with JSON:
//
//	GET  /v1/process                        who this is
//	GET  /v1/plugins                        the plugins in use, with state, process, last log lines
//	POST /v1/plugins/{kind}/{name}/reload   a new process from the binary that is there now
//	GET  /debug/pprof/                      profiles of the Go runtime, with ServeProfiles only
//
// The socket lies in a folder that only its user may enter, and only its user can open it. The
// server also asks the kernel which user connected: it answers that user and root, and refuses
// all others. Listen makes it, Server serves it, Find sees those of all processes, Client asks
// one.
//
// A process that is killed leaves its socket behind. No process listens on such a socket. The
// next process that looks at it removes it.
package introspect

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/httpd"
	"github.com/mooncake-go/mooncake/core/internal/profiling"
)

// Server answers on an admin socket. Safe for concurrent use.
type Server struct {
	http     *httpd.Server
	mux      *http.ServeMux
	profiles *profiling.Handler // nil for none
	log      *slog.Logger
	cancel   context.CancelFunc
}

// NewServer returns a server that tells about host, whose role and version it says. log
// may be nil.
func NewServer(host Host, role, version string, log *slog.Logger) *Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &handler{
		who:  Process{API: API, Role: role, PID: os.Getpid(), Version: version, Started: time.Now().UTC().Truncate(time.Millisecond)},
		host: host, log: log, ctx: ctx,
	}
	mux := h.routes()
	return &Server{log: log, cancel: cancel, mux: mux, http: httpd.New(mux, httpd.Options{
		MaxConnections: 32, ReadTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10, Logger: log,
	})}
}

// ServeProfiles has the server answer with profiles of the process below /debug/pprof as
// well. Before Start; Stop stops them.
func (s *Server) ServeProfiles(p *profiling.Handler) {
	s.mux.Handle(profiling.Root, p)
	s.profiles = p
}

// Start serves on ln, which it closes in the end, and returns at once. Once.
func (s *Server) Start(ln *Listener) { s.http.Start(ownOnly{ln, s.log}) }

// Stop gives up a reload and measurements that are in progress. It waits until ctx is done for
// requests that are being answered, then cuts them off. Repeatable; also before Start.
func (s *Server) Stop(ctx context.Context) error {
	s.cancel()
	if s.profiles != nil {
		s.profiles.Stop()
	}
	return s.http.Stop(ctx)
}
