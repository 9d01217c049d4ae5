// Package profiling serves the profiles of the Go runtime over HTTP, in the form and at the
// paths that `go tool pprof` asks for. Other than net/http/pprof by itself it bounds how long
// a measurement takes, ends one that is under way when its server stops, and does not show
// the command line, which may hold passwords.
package profiling

import (
	"context"
	"fmt"
	"net/http"
	"net/http/pprof"
	"runtime"
	rpprof "runtime/pprof"
	"strconv"
)

// Root is the path below which profiles are served.
const Root = "/debug/pprof/"

// MaxSeconds bounds what a request may ask for in ?seconds=.
const MaxSeconds = 300

// Handler serves profiles. Safe for concurrent use. Profiles cost time and show what runs in
// the process: only where strangers are not answered.
type Handler struct {
	mux    *http.ServeMux
	ctx    context.Context // ends with Stop
	cancel context.CancelFunc
}

// New returns a handler of everything below Root.
func New() *Handler {
	h := &Handler{mux: http.NewServeMux()}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.mux.HandleFunc("GET "+Root+"{$}", index)
	h.mux.HandleFunc("GET "+Root+"profile", pprof.Profile)
	h.mux.HandleFunc("GET "+Root+"trace", pprof.Trace)
	h.mux.HandleFunc("GET "+Root+"{name}", func(w http.ResponseWriter, r *http.Request) {
		pprof.Handler(r.PathValue("name")).ServeHTTP(w, r)
	})
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s := r.FormValue("seconds"); s != "" {
		if n, err := strconv.ParseFloat(s, 64); err != nil || !(n > 0 && n <= MaxSeconds) {
			http.Error(w, fmt.Sprintf("seconds: %.40q is no number above 0 and up to %d", s, MaxSeconds), http.StatusBadRequest)
			return
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	h.mux.ServeHTTP(w, r.WithContext(ctx))
}

// Over serves profiles below Root and everything else by next.
func (h *Handler) Over(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.Handle(Root, h)
	return mux
}

// Stop ends measurements under way early, so that they do not hold up the end of their
// server. Repeatable.
func (h *Handler) Stop() { h.cancel() }

// index names the profiles there are, with the number of their entries.
func index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for _, p := range rpprof.Profiles() {
		fmt.Fprintf(w, "%s%s %d\n", Root, p.Name(), p.Count())
	}
	fmt.Fprintf(w, "%sprofile?seconds=30\n%strace?seconds=1\n", Root, Root)
}

// Sample has the runtime note waits for the block and mutex profiles: one for every
// blockRate nanoseconds of waiting, one of mutexFraction waits for locks; 0 notes none. The
// rates are those of the whole process. The function that it returns notes none again.
func Sample(blockRate, mutexFraction int) (off func()) {
	runtime.SetBlockProfileRate(blockRate)
	runtime.SetMutexProfileFraction(mutexFraction)
	return func() {
		runtime.SetBlockProfileRate(0)
		runtime.SetMutexProfileFraction(0)
	}
}
