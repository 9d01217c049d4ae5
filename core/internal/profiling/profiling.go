// Package profiling serves the profiles of the Go runtime over HTTP, in the form and at the paths
// that `go tool pprof` expects. Unlike plain net/http/pprof it bounds the duration of a
// measurement, ends measurements in progress when the server stops, and does not show the command
// line, which may contain passwords.
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

// MaxSeconds bounds the parameter ?seconds= of a request.
const MaxSeconds = 300

// Handler serves profiles. It is safe for concurrent use. Profiles cost time and reveal what the
// process does, so serve them only on ports that are closed to strangers.
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

// Stop ends measurements in progress early, so that they do not delay the shutdown of their server.
// It may be called more than once.
func (h *Handler) Stop() { h.cancel() }

// index lists the profiles with the number of their entries.
func index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for _, p := range rpprof.Profiles() {
		fmt.Fprintf(w, "%s%s %d\n", Root, p.Name(), p.Count())
	}
	fmt.Fprintf(w, "%sprofile?seconds=30\n%strace?seconds=1\n", Root, Root)
}

// Sample makes the runtime sample waits for the block and mutex profiles: one sample for every
// blockRate nanoseconds of waiting, and one of mutexFraction waits for locks; 0 means none. The
// rates apply to the whole process. off turns sampling off.
func Sample(blockRate, mutexFraction int) (off func()) {
	runtime.SetBlockProfileRate(blockRate)
	runtime.SetMutexProfileFraction(mutexFraction)
	return func() {
		runtime.SetBlockProfileRate(0)
		runtime.SetMutexProfileFraction(0)
	}
}
