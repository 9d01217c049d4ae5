package profiling_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/internal/httpd"
	"github.com/mooncake-go/mooncake/core/internal/profiling"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ask(h http.Handler, method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w
}

func TestWhatIsServed(t *testing.T) {
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	p := profiling.New()
	defer p.Stop()
	h := p.Over(next)
	for _, name := range []string{"heap", "allocs", "goroutine", "mutex", "block", "threadcreate"} {
		w := ask(h, "GET", "/debug/pprof/"+name)
		require.Equal(t, 200, w.Code, name)
		_, err := profile.Parse(w.Body)
		require.NoError(t, err, name)
		assert.Contains(t, ask(h, "GET", "/debug/pprof/").Body.String(), "/debug/pprof/"+name+" ")
	}
	for target, want := range map[string]int{
		"/debug/pprof/cmdline": 404, "/debug/pprof/symbol": 404, "/debug/pprof/nope": 404, "/debug/pprof/heap/x": 404,
		"/health": http.StatusTeapot, "/debug": http.StatusTeapot,
		"/debug/pprof/profile?seconds=0": 400, "/debug/pprof/profile?seconds=-1": 400, "/debug/pprof/trace?seconds=301": 400,
		"/debug/pprof/heap?seconds=nan": 400, "/debug/pprof/heap?seconds=1h": 400,
	} {
		assert.Equal(t, want, ask(h, "GET", target).Code, target)
	}
	assert.Equal(t, 405, ask(h, "POST", "/debug/pprof/heap").Code)
}

// TestStopEndsAMeasurement: a profile of five minutes does not delay the shutdown of the server.
func TestStopEndsAMeasurement(t *testing.T) {
	p := profiling.New()
	entered := make(chan struct{})
	s := httpd.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		p.ServeHTTP(w, r)
	}), httpd.Options{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.Start(ln)
	got := make(chan []byte, 1)
	go func() {
		defer close(got)
		resp, err := http.Get("http://" + ln.Addr().String() + "/debug/pprof/profile?seconds=300")
		if assert.NoError(t, err) {
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			assert.NoError(t, err)
			got <- b
		}
	}()
	<-entered
	p.Stop()
	p.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, s.Stop(ctx))
	require.NoError(t, ctx.Err(), "it waited for the measurement")
	_, err = profile.ParseData(<-got)
	assert.NoError(t, err, "the samples until then form a profile")
	http.DefaultClient.CloseIdleConnections()
}

// contend waits for a lock that is held, once.
func contend() {
	var mu sync.Mutex
	mu.Lock()
	began, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		close(began)
		mu.Lock()
		mu.Unlock() //nolint:staticcheck // It only has to wait.
	}()
	<-began
	time.Sleep(10 * time.Millisecond)
	mu.Unlock()
	<-done
}

// samples returns how many waits a profile has counted since the process began.
func samples(t *testing.T, h http.Handler, name string) (n int64) {
	p, err := profile.Parse(ask(h, "GET", profiling.Root+name).Body)
	require.NoError(t, err)
	for _, s := range p.Sample {
		n += s.Value[0]
	}
	return n
}

func TestWaitsAreNotedWhenAsked(t *testing.T) {
	h := profiling.New()
	defer h.Stop()
	before, held := samples(t, h, "block"), samples(t, h, "mutex")
	contend()
	require.Equal(t, before, samples(t, h, "block"))
	off := profiling.Sample(1, 1)
	defer off()
	require.Equal(t, 1, runtime.SetMutexProfileFraction(-1))
	require.Eventually(t, func() bool {
		contend()
		return samples(t, h, "block") > before && samples(t, h, "mutex") > held
	}, time.Minute, time.Millisecond)
	off()
	require.Zero(t, runtime.SetMutexProfileFraction(-1))
}
