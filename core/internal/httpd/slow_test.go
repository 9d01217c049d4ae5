package httpd_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/httpd"
)

// TestSlowClientsDoNotKeepOthersOut: slow clients take all slots, and then a fast one connects. No
// timeout of the server is short enough to help.
func TestSlowClientsDoNotKeepOthersOut(t *testing.T) {
	const slots = 8
	long := time.Hour
	for name, start := range map[string]string{
		"silent": "", "half a head": "GET / HTTP/1.1\r\nHost:", "no body": "PUT /read HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n",
		"takes nothing": "GET /write HTTP/1.1\r\nHost: x\r\n\r\n", "idle": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var inside atomic.Int32
			s := httpd.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				inside.Add(1)
				switch r.URL.Path {
				case "/read":
					_, _ = io.Copy(io.Discard, r.Body) // The server cuts it off, as it should.
				case "/write":
					for r.Context().Err() == nil {
						if _, err := io.WriteString(w, strings.Repeat("x", 1<<20)); err != nil {
							return
						}
					}
				default:
					io.WriteString(w, "yes")
				}
			}), httpd.Options{MaxConnections: slots, ReadTimeout: long, ReadHeaderTimeout: long, WriteTimeout: long, IdleTimeout: long})
			ln := listen(t)
			s.Start(ln)
			for range slots {
				conn, err := net.Dial("tcp", ln.Addr().String())
				require.NoError(t, err)
				defer conn.Close()
				io.WriteString(conn, start)
			}
			if strings.HasSuffix(start, "\r\n\r\n") {
				require.Eventually(t, func() bool { return inside.Load() == slots }, time.Minute, time.Millisecond)
			}
			client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
			for range 3 {
				resp, err := client.Get("http://" + ln.Addr().String())
				require.NoError(t, err)
				b, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				resp.Body.Close()
				assert.Equal(t, "yes", string(b))
			}
			s.Stop(canceled(t))
		})
	}
}

// TestWorkIsNotCutOff: a connection whose handler works does not wait for its client, so the next
// connection waits for the handler.
func TestWorkIsNotCutOff(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	s := httpd.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/work" {
			close(entered)
			<-release
		}
		io.WriteString(w, "done")
	}), httpd.Options{MaxConnections: 1})
	ln := listen(t)
	s.Start(ln)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) <-chan string {
		out := make(chan string, 1)
		go func() {
			resp, err := client.Get("http://" + ln.Addr().String() + path)
			if err != nil {
				out <- err.Error()
				return
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			out <- string(b)
		}()
		return out
	}
	work := get("/work")
	<-entered
	second := get("/")
	select {
	case got := <-second:
		t.Fatalf("the second got %q while the first worked", got)
	case <-time.After(250 * time.Millisecond):
	}
	close(release)
	assert.Equal(t, "done", <-work)
	assert.Equal(t, "done", <-second)
	require.NoError(t, s.Stop(t.Context()))
}
