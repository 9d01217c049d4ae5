package storeservice_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rest/storeservice"
)

// serve starts the service on a port and returns its address.
func serve(t *testing.T, h http.Handler) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := storeservice.NewServer(h, nil, nil)
	s.Start(ln)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // at once: slow clients would never end
		assert.NoError(t, s.Stop(ctx))
	})
	return ln.Addr().String()
}

func dial(t *testing.T, addr, text string) net.Conn {
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	return conn
}

// TestOverTheWire: what only a raw connection can send.
func TestOverTheWire(t *testing.T) {
	w := newWorld(t, storeservice.Options{})
	addr := serve(t, w)
	for request, want := range map[string]string{
		"GET /api/get/%zz HTTP/1.1\r\nHost: x\r\n\r\n":                                                "400",
		"GET /api/exist/a//../b HTTP/1.1\r\nHost: x\r\n\r\n":                                          "200", // no path is cleaned: it is a key
		"PUT /api/put HTTP/1.1\r\nHost: x\r\nContent-Length: 104857601\r\n\r\n":                       "413",
		"PUT /api/put HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\nTransfer-Encoding: gzip\r\n\r\n":   "501",
		"DELETE /api/remove_all HTTP/1.1\r\nHost: x\r\n\r\n":                                          "200",
		"PATCH /api/put HTTP/1.1\r\nHost: x\r\n\r\n":                                                  "405",
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n":                                                       "200", // of the server itself
		"GET /api/get/" + strings.Repeat("k", 65<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n":                "400",
		"PUT /api/put HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n{}  \n": "100",
	} {
		conn := dial(t, addr, request)
		buf := make([]byte, 12)
		_, err := io.ReadFull(conn, buf)
		require.NoError(t, err, request)
		assert.Equal(t, "HTTP/1.1 "+want, string(buf), "%.60q", request)
		conn.Close()
	}
}

// TestSlowClientsKeepNoClientOut: more of them than the port takes connections, and than
// there is memory for, each as slow as its kind can be.
func TestSlowClientsKeepNoClientOut(t *testing.T) {
	const clients = 520
	w := newWorld(t, storeservice.Options{Memory: 16 << 20})
	w.objects["large"] = make([]byte, 8<<20)
	w.objects["small"] = []byte("x")
	for name, start := range map[string]string{
		"heads":  "GET /api/get/small HTTP/1.1\r\nHost:",
		"bodies": "PUT /api/put HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n{\"key\":\"k\",",
		"chunks": "POST /api/mount HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			addr := serve(t, w)
			for range clients {
				dial(t, addr, start)
			}
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			for range 3 {
				resp, err := client.Get("http://" + addr + "/api/get/small")
				require.NoError(t, err)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				resp.Body.Close()
				assert.Equal(t, "x", string(body))
			}
		})
	}
}

// reader is a body that gives one piece and then waits.
type reader struct {
	piece string
	wait  chan struct{}
}

func (r *reader) Read(b []byte) (int, error) {
	if r.piece == "" {
		<-r.wait
		return 0, io.EOF
	}
	n := copy(b, r.piece)
	r.piece = r.piece[n:]
	return n, nil
}

// TestMemoryIsBounded: requests hold what they were sent, and no more than there is; one
// that finds none is told to come back.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const memory = 1 << 20
		w := newWorld(t, storeservice.Options{Memory: memory})
		w.objects["huge"] = make([]byte, 2*memory)
		w.objects["tiny"] = make([]byte, 1)
		wait := make(chan struct{})
		codes := make(chan int, 3)
		for range 3 {
			go func() {
				rec := httptest.NewRecorder()
				w.ServeHTTP(rec, httptest.NewRequest(http.MethodPut, "/api/put", &reader{strings.Repeat(" ", 200<<10), wait}))
				codes <- rec.Code
			}()
			synctest.Wait()
		}
		time.Sleep(2 * storeservice.MemoryWait) // What one gives back may reach the other at its last moment.
		synctest.Wait()
		assert.Len(t, codes, 2, "the first has its memory, the others were refused")
		assert.Equal(t, 503, <-codes)
		assert.Equal(t, 503, <-codes)
		assert.Less(t, w.FreeMemory(), int64(memory))

		rec := w.do("GET", "/api/get/huge", "")
		assert.Equal(t, 503, rec.Code)
		assert.Equal(t, "1", rec.Header().Get("Retry-After"))
		assert.Equal(t, 200, w.do("GET", "/api/get/tiny", "").Code)
		close(wait)
		assert.Equal(t, 500, <-codes, "blanks are no JSON")
		assert.Equal(t, int64(memory), w.FreeMemory())
		assert.Equal(t, 200, w.do("GET", "/api/get/huge", "").Code, "larger than all the memory, it has it alone")
		assert.Equal(t, int64(memory), w.FreeMemory())
	})
}

// TestThePaceOfAClient: 10 s, and a second more for every 256 KiB.
func TestThePaceOfAClient(t *testing.T) {
	assert.Equal(t, storeservice.PaceGrace, storeservice.Due(0))
	assert.Equal(t, storeservice.PaceGrace+time.Second, storeservice.Due(storeservice.Pace))
	assert.Equal(t, storeservice.PaceGrace+400*time.Second, storeservice.Due(100<<20))
}

// deadlines records what a handler asks of its connection.
type deadlines struct {
	*httptest.ResponseRecorder
	reads, writes []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.reads = append(d.reads, t); return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.writes = append(d.writes, t); return nil }

// TestDeadlinesFollowTheBytes: each piece gets its time, and none is left behind for the
// work in between, which would end the request.
func TestDeadlinesFollowTheBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, storeservice.Options{})
		d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		value := strings.Repeat("x", 1<<20)
		w.ServeHTTP(d, httptest.NewRequest(http.MethodPut, "/api/put", strings.NewReader(fmt.Sprintf(`{"key":"k","value":%q}`, value))))
		require.Equal(t, 200, d.Code)
		require.Greater(t, len(d.reads), 4)
		assert.True(t, d.reads[0].IsZero() && d.reads[len(d.reads)-1].IsZero())
		for _, r := range d.reads[1 : len(d.reads)-1] {
			assert.False(t, r.Before(time.Now().Add(storeservice.PaceGrace)))
		}
		d = &deadlines{ResponseRecorder: httptest.NewRecorder()}
		w.ServeHTTP(d, httptest.NewRequest(http.MethodGet, "/api/get/k", nil))
		require.Equal(t, value, d.Body.String())
		require.Len(t, d.writes, 6, "one for the call, four for the pieces, one for the end")
		for i, at := range d.writes[1:5] {
			assert.Equal(t, storeservice.Due((i+1)*256<<10), time.Until(at))
		}
	})
}
