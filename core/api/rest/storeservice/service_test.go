package storeservice_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rest/storeservice"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// world is a service over a fake pool, with a folder in the place of /dev/shm.
type world struct {
	*pool
	*storeservice.Service
	dir string
}

func newWorld(t testing.TB, o storeservice.Options) *world {
	w := &world{pool: newPool(), dir: t.TempDir()}
	o.Dirs = append([]string{w.dir}, o.Dirs...)
	if o.Files == nil {
		o.Files = []string{w.dir + "/"}
	}
	w.Service = storeservice.New(w.pool, w.pool, o)
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "shm-1"), make([]byte, 8<<10), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "shm-2"), make([]byte, 8<<10), 0o600))
	return w
}

func (w *world) do(method, target, body string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, httptest.NewRequest(method, target, strings.NewReader(body)))
	return rec
}

// exchange is a request and its answer. Of the answer, DIR is the folder of the files.
type exchange struct {
	method, target, body string
	status               int
	answer               string
}

// exchanges of one service, in this order: every route with every status it has.
func exchanges() []exchange {
	const ok = `{"status":"success"}`
	return []exchange{
		{"PUT", "/api/put", `{"key":"page-1","value":"hällo","more":[1]}`, 200, ok},
		{"PUT", "/api/put", `{"key":"page-1","value":"another"}`, 200, ok},
		{"PUT", "/api/put", `{"key":"a/b c","value":"slash","key":"a/b c"}`, 200, ok},
		{"PUT", "/api/put", `{"key":"page-1"}`, 400, `{"error":"Missing key or value"}`},
		{"PUT", "/api/put", `{"KEY":"page-1","value":"x"}`, 400, `{"error":"Missing key or value"}`},
		{"PUT", "/api/put", `{"key":"page-2","value":null}`, 400, `{"error":"Missing key or value"}`},
		{"PUT", "/api/put", `{"key":"page-2","value":7}`, 500, `{"error":"PUT operation failed","detail":"value must be a string"}`},
		{"PUT", "/api/put", `{"key":["page-2"],"value":"x"}`, 500, `{"error":"PUT operation failed","detail":"key must be a string"}`},
		{"PUT", "/api/put", `{"key":`, 500, `{"error":"Invalid JSON body","detail":"unexpected end of JSON input"}`},
		{"PUT", "/api/put", `null`, 500, `{"error":"Invalid JSON body","detail":"it is null and must be an object"}`},
		{"PUT", "/api/put", ``, 500, `{"error":"Invalid JSON body","detail":"unexpected end of JSON input"}`},
		{"PUT", "/api/put", "{\"key\":\"k\",\"value\":\"\xff\"}", 500, `{"error":"Invalid JSON body","detail":"it is not UTF-8"}`},
		{"PUT", "/api/put", `{"key":"k","value":"\ud800!"}`, 500, `{"error":"Invalid JSON body","detail":"it has half of a surrogate pair, which is no character"}`},
		{"GET", "/api/get/page-1", "", 200, "hällo"},
		{"GET", "/api/get/a/b%20c", "", 200, "slash"},
		{"GET", "/api/get/a%2Fb%20c", "", 200, "slash"},
		{"HEAD", "/api/get/page-1", "", 200, ""},
		{"GET", "/api/get/page-9", "", 404, `{"error":"Key not found","detail":"get: OBJECT_NOT_FOUND: there is no such object","error_code":-704}`},
		{"GET", "/api/get/", "", 404, `{"error":"Not found"}`},
		{"GET", "/api/exist/page-1", "", 200, `{"exists":true}`},
		{"GET", "/api/exist/%ff", "", 200, `{"exists":false}`},
		{"DELETE", "/api/remove/page-1", "", 200, ok},
		{"DELETE", "/api/remove/page-1", "", 500, `{"error":"Remove operation failed","detail":"remove: OBJECT_NOT_FOUND: there is no such object","error_code":-704}`},
		{"DELETE", "/api/remove_all", "", 200, `{"status":"success removed 1 keys"}`},

		{"POST", "/api/mount", `{"size":4096,"protocol":"tcp","location":"cpu:0"}`, 200, `{"status":"success","segment_ids":["7-1"],"allocated_size":4096}`},
		{"POST", "/api/mount", `{}`, 400, `{"error":"Invalid size: must be a positive integer"}`},
		{"POST", "/api/mount", `{"size":-1}`, 400, `{"error":"Invalid size: must be a positive integer","detail":"size must be a whole number, 0 or more and below 2^63"}`},
		{"POST", "/api/mount", `{"size":true}`, 400, `{"error":"Invalid size: must be a positive integer","detail":"size must be a whole number, 0 or more and below 2^63"}`},
		{"POST", "/api/mount", `{"size":1e9}`, 400, `{"error":"Invalid size: must be a positive integer","detail":"size must be a whole number, 0 or more and below 2^63"}`},
		{"POST", "/api/mount", `{"size":1,"protocol":"rdma"}`, 400, `{"error":"Invalid parameters","detail":"protocol \"rdma\" is not one of this node: tcp"}`},
		{"POST", "/api/mount", `{"size":1,"location":7}`, 400, `{"error":"Invalid parameters","detail":"location must be a string"}`},
		{"POST", "/api/mount", `[]`, 500, `{"error":"Invalid JSON body","detail":"json: cannot unmarshal array into Go value of type storeservice.fields"}`},
		{"POST", "/api/unmount", `{"segment_ids":["7-1"],"grace_period_seconds":5}`, 200, ok},
		{"POST", "/api/unmount", `{"segment_ids":"7-1"}`, 500, `{"error":"Unmount operation failed","detail":"unmount: SEGMENT_NOT_FOUND: this node has no segment 7-1","error_code":-101}`},
		{"POST", "/api/unmount", `{}`, 400, `{"error":"Missing segment_ids"}`},
		{"POST", "/api/unmount", `{"segment_ids":[1]}`, 400, `{"error":"Missing segment_ids","detail":"segment_ids must be a list of strings, or a string"}`},
		{"POST", "/api/unmount", `{"segment_ids":["x"]}`, 500, `{"error":"Unmount operation failed","detail":"\"x\" is no ID of a segment","failed_segment_ids":["x"]}`},
		{"POST", "/api/unmount", `{"segment_ids":"7-1","grace_period_seconds":"5"}`, 400, `{"error":"Invalid grace_period_seconds","detail":"grace_period_seconds must be a whole number from 0 to 3600"}`},

		{"POST", "/api/mount_shm", `{"name":"/shm-1","size":4096,"offset":4096}`, 200, `{"status":"success","segment_ids":["7-2"]}`},
		{"POST", "/api/mount_shm", `{"name":"shm-1","size":4096}`, 200, `{"status":"success","segment_ids":["7-3"]}`},
		{"POST", "/api/mount_shm", `{"name":"shm-1","size":8192}`, 500, `{"error":"Mount shm operation failed","detail":"store service: map DIR/shm-1: INVALID_PARAMS: a part of it is mounted already: resource temporarily unavailable","error_code":-600}`},
		{"POST", "/api/mount_shm", `{"name":"shm-1","size":8193}`, 500, `{"error":"Mount shm operation failed","detail":"store service: map DIR/shm-1: INVALID_PARAMS: it has 8192 bytes and ends before offset 0 + size 8193","error_code":-600}`},
		{"POST", "/api/mount_shm", `{"name":"shm-1","size":1,"offset":1}`, 500, `{"error":"Mount shm operation failed","detail":"store service: map DIR/shm-1: INVALID_PARAMS: offset 1 is not a multiple of the page size 4096","error_code":-600}`},
		{"POST", "/api/mount_shm", `{"name":"../shm-1","size":1}`, 400, `{"error":"Invalid name: must be the name of a file in /dev/shm"}`},
		{"POST", "/api/mount_shm", `{"name":"..","size":1}`, 400, `{"error":"Invalid name: must be the name of a file in /dev/shm"}`},
		{"POST", "/api/mount_shm", `{"name":"//shm-1","size":1}`, 400, `{"error":"Invalid name: must be the name of a file in /dev/shm"}`},
		{"POST", "/api/mount_shm", `{"size":1}`, 400, `{"error":"Invalid name: must be the name of a file in /dev/shm"}`},
		{"POST", "/api/mount_shm", `{"name":"shm-1"}`, 400, `{"error":"Invalid size: must be a positive integer"}`},
		{"POST", "/api/mount_shm", `{"name":"shm-1","size":9223372036854775807,"offset":1}`, 400, `{"error":"Invalid offset: must be a non-negative integer"}`},
		{"POST", "/api/mount_shm", `{"name":"shm-1","size":1,"offset":-1}`, 400, `{"error":"Invalid offset: must be a non-negative integer","detail":"offset must be a whole number, 0 or more and below 2^63"}`},
		{"POST", "/api/unmount_shm", `{"segment_ids":["7-2","7-9","7-3"]}`, 500, `{"error":"Unmount shm operation failed","detail":"unmount: SEGMENT_NOT_FOUND: this node has no segment 7-9","error_code":-101,"failed_segment_ids":["7-9"]}`},
		{"POST", "/api/mount_shm", `{"name":"shm-1","size":8192}`, 200, `{"status":"success","segment_ids":["7-4"]}`},
		{"POST", "/api/unmount_shm", `{"segment_ids":"7-4"}`, 200, ok},
		{"POST", "/api/unmount_shm", `{"segment_ids":[]}`, 400, `{"error":"Missing segment_ids"}`},

		{"POST", "/api/unmount_local_disk", `{"grace_period_seconds":3600}`, 200, ok},
		{"POST", "/api/unmount_local_disk", ``, 200, ok},
		{"POST", "/api/unmount_local_disk", `{"grace_period_seconds":3601}`, 400, `{"error":"Invalid grace_period_seconds","detail":"grace_period_seconds must be a whole number from 0 to 3600"}`},
		{"POST", "/api/unmount_local_disk", `{"grace_period_seconds":true}`, 400, `{"error":"Invalid grace_period_seconds","detail":"grace_period_seconds must be a whole number from 0 to 3600"}`},
		{"POST", "/api/unmount_local_disk", `{`, 400, `{"error":"Invalid JSON body","detail":"unexpected end of JSON input"}`},

		{"POST", "/api/reconfigure", `{"mode":"decode","path":"DIR/shm-1","size":8192}`, 200, `{"status":"success","mode":"decode","segment_ids":["7-5"]}`},
		{"POST", "/api/reconfigure", `{"mode":"decode","path":"DIR/none","size":8192}`, 500, `{"error":"Reconfigure failed, the previous segments stay","detail":"store service: map DIR/none: INVALID_PARAMS: openat none: no such file or directory","error_code":-600,"mode":"decode"}`},
		{"POST", "/api/reconfigure", `{"mode":"decode","path":"DIR/../x","size":8192}`, 400, `{"error":"Invalid parameters","detail":"path \"DIR/../x\" is not in DIR; whoever reaches this port could have any other file overwritten"}`},
		{"POST", "/api/reconfigure", `{"mode":"decode","size":8192}`, 400, `{"error":"Missing path or size: mode decode needs both"}`},
		{"POST", "/api/reconfigure", `{"mode":"Decode","path":"DIR/none"}`, 400, `{"error":"Missing path or size: mode decode needs both"}`},
		{"POST", "/api/reconfigure", `{"mode":"both"}`, 400, `{"error":"Invalid mode: must be prefill or decode"}`},
		{"POST", "/api/reconfigure", `{"mode":"prefill"}`, 200, `{"status":"success","mode":"prefill","segment_ids":[]}`},

		{"GET", "/", "", 404, `{"error":"Not found"}`},
		{"GET", "/api/get/%zz", "", 404, `{"error":"Not found"}`},
		{"GET", "/api/put", "", 405, `{"error":"Method not allowed"}`},
	}
}

// TestEveryRouteAndStatus: the bodies are compared as they are sent.
func TestEveryRouteAndStatus(t *testing.T) {
	w := newWorld(t, storeservice.Options{Protocols: []string{"tcp"}})
	seen := map[string]map[int]bool{}
	for _, x := range exchanges() {
		if strings.HasSuffix(x.target, "%zz") {
			continue // A client cannot send it; see TestOverTheWire.
		}
		rec := w.do(x.method, x.target, strings.ReplaceAll(x.body, "DIR", w.dir))
		got := strings.ReplaceAll(rec.Body.String(), w.dir, "DIR")
		require.Equal(t, x.status, rec.Code, "%s %s %s: %s", x.method, x.target, x.body, got)
		if x.method == http.MethodHead {
			assert.Equal(t, "6", rec.Header().Get("Content-Length"))
			continue
		}
		require.Equal(t, x.answer, got, "%s %s %s", x.method, x.target, x.body)
		want := "application/json; charset=utf-8"
		if x.status == 200 && strings.HasPrefix(x.target, "/api/get/") {
			want = "application/octet-stream"
		}
		assert.Equal(t, want, rec.Header().Get("Content-Type"))
		for _, r := range storeservice.Routes() {
			if r[0] == x.method && (r[1] == x.target || strings.HasSuffix(r[1], "/") && strings.HasPrefix(x.target, r[1])) {
				if seen[r[1]] == nil {
					seen[r[1]] = map[int]bool{}
				}
				seen[r[1]][x.status] = true
			}
		}
	}
	for _, r := range storeservice.Routes() {
		assert.True(t, seen[r[1]][200], "%v has no example that works", r)
	}
	assert.Empty(t, w.pool.frees, "everything was unmounted, and with it unmapped")
	assert.Equal(t, []time.Duration{time.Hour, 0}, w.tierGraces)
	assert.Greater(t, w.tierLimits[0], time.Hour, "the call ends after the grace")
	assert.Equal(t, int64(1<<30), w.FreeMemory(), "requests give their memory back")
}

// TestFailuresOfThePool: every call that the pool refuses is 500 with the pool's reason.
func TestFailuresOfThePool(t *testing.T) {
	w := newWorld(t, storeservice.Options{})
	w.broken = errs.New(errs.RPCFail, "master 10.0.0.1:50051", "it does not answer")
	w.full = true
	for _, x := range []exchange{
		{"PUT", "/api/put", `{"key":"k","value":"v"}`, 500, "PUT operation failed"},
		{"GET", "/api/get/k", "", 500, "GET operation failed"},
		{"GET", "/api/exist/k", "", 500, "Exist check failed"},
		{"DELETE", "/api/remove/k", "", 500, "Remove operation failed"},
		{"DELETE", "/api/remove_all", "", 500, "RemoveAll operation failed"},
		{"POST", "/api/unmount_local_disk", `{"grace_period_seconds":7}`, 500, "Unmount local disk operation failed, ret=-900"},
	} {
		rec := w.do(x.method, x.target, x.body)
		assert.Equal(t, x.status, rec.Code)
		assert.JSONEq(t, `{"error":"`+x.answer+`","detail":"master 10.0.0.1:50051: RPC_FAIL: it does not answer","error_code":-900}`, rec.Body.String())
	}
	assert.Equal(t, []time.Duration{7 * time.Second}, w.tierGraces)
	for target, text := range map[string]string{"/api/mount": "Mount operation failed", "/api/mount_shm": "Mount shm operation failed"} {
		rec := w.do("POST", target, `{"name":"shm-1","size":4096}`)
		assert.Equal(t, 500, rec.Code)
		assert.JSONEq(t, `{"error":"`+text+`","detail":"mount: INVALID_PARAMS: there is no more memory","error_code":-600}`, rec.Body.String())
	}
	w.broken, w.full = nil, false
	assert.Equal(t, 200, w.do("POST", "/api/mount_shm", `{"name":"shm-1","size":4096}`).Code, "a mount that failed holds no lock")
}

// TestLeasedObjectsStay: remove and remove_all keep objects that a client reads.
func TestLeasedObjectsStay(t *testing.T) {
	w := newWorld(t, storeservice.Options{})
	for _, key := range []string{"a", "b"} {
		require.Equal(t, 200, w.do("PUT", "/api/put", `{"key":"`+key+`","value":"v"}`).Code)
	}
	w.leased["a"] = true
	rec := w.do("DELETE", "/api/remove/a", "")
	assert.Equal(t, 500, rec.Code)
	assert.Contains(t, rec.Body.String(), `"error_code":-706`)
	assert.Equal(t, `{"status":"success removed 1 keys"}`, w.do("DELETE", "/api/remove_all", "").Body.String())
	assert.Equal(t, `{"exists":true}`, w.do("GET", "/api/exist/a", "").Body.String())
}

// TestBodiesHaveABound: one byte more is 413, whether the length was announced or not.
func TestBodiesHaveABound(t *testing.T) {
	const bound = 64 << 10
	w := newWorld(t, storeservice.Options{MaxBody: bound})
	frame := len(`{"key":"k","value":""}`)
	for _, c := range []struct{ size, status int }{{bound, 200}, {bound + 1, 413}} {
		for _, announced := range []bool{true, false} {
			clear(w.objects)
			var body io.Reader = strings.NewReader(`{"key":"k","value":"` + strings.Repeat("x", c.size-frame) + `"}`)
			if !announced {
				body = struct{ io.Reader }{body}
			}
			rec := httptest.NewRecorder()
			w.ServeHTTP(rec, httptest.NewRequest(http.MethodPut, "/api/put", body))
			require.Equal(t, c.status, rec.Code, rec.Body.String())
			require.Len(t, w.objects["k"], map[int]int{200: c.size - frame}[c.status])
		}
	}
	assert.Equal(t, 413, w.do("POST", "/api/mount", `{"size":1,"x":"`+strings.Repeat("x", 1<<20)+`"}`).Code)
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, httptest.NewRequest(http.MethodPut, "/api/put", io.MultiReader(strings.NewReader(`{"key"`), broken{})))
	assert.Equal(t, 400, rec.Code, "a body that breaks off")
	assert.Equal(t, int64(1<<30), w.FreeMemory())
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("reset") }
