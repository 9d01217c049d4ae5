// Package httpd provides an http.Server in which every wait is bounded. All HTTP APIs run on it.
package httpd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// Options are the settings of a Server; the zero value is usable.
type Options struct {
	// MaxConnections bounds the open connections. Default 512. A further one replaces the
	// connection that has waited longest for its client.
	MaxConnections int
	// ReadTimeout bounds the reading of a request, ReadHeaderTimeout its head. Defaults
	// 30 s and 5 s.
	ReadTimeout, ReadHeaderTimeout time.Duration
	// WriteTimeout bounds the time from the end of the request's head to the end of the answer;
	// a handler that streams extends it. Default 30 s.
	WriteTimeout time.Duration
	// IdleTimeout bounds how long an idle connection is kept. Default 60 s.
	IdleTimeout time.Duration
	// MaxHeaderBytes bounds the head of a request. Default 1 MiB.
	MaxHeaderBytes int
	// Changes reports a GET that changes something, which web pages of other origins may not do; nil for none.
	Changes func(*http.Request) bool
	// Doors decides over the bearer tokens of requests at Door; nil takes none.
	Doors *doors.Doors
	Door  config.Door
	// Logger, nil for none.
	Logger *slog.Logger
}

// Server serves one handler on one listener.
type Server struct {
	http *http.Server
	max  int
	log  *slog.Logger

	mu   sync.Mutex
	done chan struct{} // closed when Serve has returned, nil before Start
	err  error
}

// New returns a server of h. Nothing runs before Start.
func New(h http.Handler, opts Options) *Server {
	def := func(v, d time.Duration) time.Duration {
		if v > 0 {
			return v
		}
		return d
	}
	if opts.MaxConnections <= 0 {
		opts.MaxConnections = 512
	}
	if opts.MaxHeaderBytes <= 0 {
		opts.MaxHeaderBytes = 1 << 20
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{max: opts.MaxConnections, log: opts.Logger, http: &http.Server{
		Handler: tracked(browserSafe(identified(h, opts.Doors, opts.Door), opts.Changes)),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return access.With(context.WithValue(ctx, connKey{}, c), access.PeerOf(c))
		},
		ReadTimeout:       def(opts.ReadTimeout, 30*time.Second),
		ReadHeaderTimeout: def(opts.ReadHeaderTimeout, 5*time.Second),
		WriteTimeout:      def(opts.WriteTimeout, 30*time.Second),
		IdleTimeout:       def(opts.IdleTimeout, 60*time.Second),
		MaxHeaderBytes:    opts.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(opts.Logger.Handler(), slog.LevelDebug),
	}}
}

// Start serves on ln and returns at once. The server closes ln. Start may be called only once.
func (s *Server) Start(ln net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		strangers := foreign.NewLog(s.log, "the HTTP port "+ln.Addr().String(), map[foreign.Protocol]string{
			foreign.CoroRPC: "calls of stores and clients go to a master's rpc_port, 50051 by default",
			foreign.Lean:    "calls of stores and clients go to a master's rpc_port, 50051 by default",
			foreign.TLS:     "use http://, not https://",
		})
		if err := s.http.Serve(limit(ln, s.max, strangers)); !errors.Is(err, http.ErrServerClosed) {
			s.err = err
		}
	}()
}

// Stop refuses new requests and waits for those in progress until ctx is done, then cuts them
// off. It returns the error that ended the server, if any. Stop may be called more than once, and
// before Start.
func (s *Server) Stop(ctx context.Context) error {
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
	s.mu.Lock()
	done := s.done
	s.mu.Unlock()
	if done == nil {
		return nil
	}
	<-done
	return s.err
}

// tracked tells the connection when a handler works and when it waits for the client.
func tracked(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(connKey{}).(*limitConn)
		if !ok {
			h.ServeHTTP(w, r)
			return
		}
		c.busy()
		defer c.wait()
		if security.Leaving(c.Conn) {
			w.Header().Set("Connection", "close") // The next request comes over another one, with the present certificates.
		}
		if r.Body != http.NoBody {
			r.Body = waitingBody{r.Body, c}
		}
		h.ServeHTTP(w, r)
	})
}
