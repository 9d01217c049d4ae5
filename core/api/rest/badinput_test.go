package rest_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rest"
)

// isFailure checks that an answer is JSON of the documented form.
func isFailure(t *testing.T, w *httptest.ResponseRecorder, status int, what string) {
	t.Helper()
	assert.Equal(t, status, w.Code, "%s: %s", what, w.Body)
	var f struct {
		Success *bool  `json:"success"`
		Code    int    `json:"error_code"`
		Message string `json:"error_message"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &f), "%s: %s", what, w.Body)
	require.NotNil(t, f.Success, what)
	assert.False(t, *f.Success, what)
	assert.Equal(t, -600, f.Code, what)
	assert.Equal(t, "INVALID_PARAMS", f.Message, what)
}

func TestWrongMethods(t *testing.T) {
	allowed := map[string][]string{}
	for _, r := range rest.Routes() {
		allowed[r.Path] = append(allowed[r.Path], r.Method)
	}
	for path, methods := range allowed {
		list := strings.Join(methods, " ")
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"} {
			if strings.Contains(list, method) || method == "HEAD" && strings.Contains(list, "GET") {
				continue
			}
			m := full()
			w := ask(m, method, path)
			isFailure(t, w, http.StatusMethodNotAllowed, method+path)
			for _, have := range methods {
				assert.Contains(t, w.Header().Get("Allow"), have)
			}
			assert.Empty(t, m.asked)
		}
	}
	assert.Equal(t, "DELETE, GET, HEAD, PUT", ask(full(), "PATCH", "/api/v1/tenant_quotas").Header().Get("Allow"))
}

func TestUnknownRoutes(t *testing.T) {
	for _, path := range []string{"/api/", "/api/v1/", "/api/v1/nosuch", "/api/v1/keys/", "/api/v1/keys%00", "/api//v1/keys", "/api/v1/../keys"} {
		isFailure(t, ask(full(), "GET", path), 404, path)
	}
	for _, path := range []string{"/", "/nosuch", "//health", "/HEALTH", "/%ff"} {
		assert.Equal(t, "404 Not Found", ask(full(), "GET", path).Body.String(), path)
	}
}

// TestHugeBodies: of every route, read or not.
func TestHugeBodies(t *testing.T) {
	huge := strings.Repeat(" ", 1<<20) + "{}"
	for _, r := range rest.Routes() {
		m := full()
		isFailure(t, askBody(m, r.Method, r.Path, huge), http.StatusRequestEntityTooLarge, r.Method+r.Path)
		assert.Empty(t, m.asked)
		if r.Body == "" {
			continue
		}
		req := httptest.NewRequest(r.Method, r.Path+"?tenant_id=t", strings.NewReader(huge))
		if !strings.HasSuffix(r.Path, "quotas") {
			req = httptest.NewRequest(r.Method, r.Path, strings.NewReader(huge))
		}
		req.ContentLength = -1 // in chunks: the size shows only while it is read
		w := httptest.NewRecorder()
		rest.NewHandler(m, rest.Options{}).ServeHTTP(w, req)
		isFailure(t, w, http.StatusRequestEntityTooLarge, "chunked "+r.Path)
		assert.Empty(t, m.asked)
	}
}

func TestBadBodies(t *testing.T) {
	bodies := map[string][]string{
		"POST /api/v1/drain_jobs": {"", "null", "[]", `"a"`, "{", `{"segments":"a"}`, `{"segments":[1]}`, `{"segments":[]}`, `{}`,
			`{"segments":["a"],"max_concurrency":"4"}`, `{"segments":["a"],"max_concurrency":0}`, `{"segments":["a"],"max_concurrency":1025}`,
			`{"segments":["a"],"max_concurrency":1.5}`, `{"segments":["a"]} {}`, "{\"segments\":[\"\xff\"]}", "\x00", strings.Repeat("[", 100_000)},
		"POST /api/v1/tasks": {"", "null", "{}", `{"kind":"steal","key":"k","targets":["a"]}`, `{"kind":"copy","targets":["a"]}`, `{"kind":"copy","key":"k"}`,
			`{"kind":"move","key":"k","source":"s","targets":["a","b"]}`, `{"kind":"move","key":"k","targets":["a"]}`, `{"kind":"copy","key":1,"targets":["a"]}`,
			`{"kind":"copy","key":"k","targets":["a"],"nosuch":1}`, `{"kind":"copy","key":"k","targets":["a"],"tenant_id":"_all"}`,
			"{\"kind\":\"copy\",\"key\":\"\xff\",\"targets\":[\"a\"]}", fmt.Sprintf(`{"kind":"copy","key":%q,"targets":["a"]}`, strings.Repeat("k", 64<<10+1))},
		"PUT /api/v1/tenant_quotas?tenant_id=t": {"", "null", "{}", `{"requested_quota_bytes":0}`, `{"requested_quota_bytes":-1}`, `{"requested_quota_bytes":"1GB"}`,
			`{"requested_quota_bytes":1.5}`, fmt.Sprintf(`{"requested_quota_bytes":%d}`, uint64(math.MaxInt64)+1), `{"requested_quota_bytes":1,"x":2}`, "1"},
	}
	covered := map[string]bool{}
	for name, list := range bodies {
		method, target, _ := strings.Cut(name, " ")
		path, _, _ := strings.Cut(target, "?")
		covered[method+" "+path] = true
		for _, body := range list {
			m := full()
			isFailure(t, askBody(m, method, target, body), 400, fmt.Sprintf("%s %.100q", name, body))
			assert.Empty(t, m.asked, "%s %.100q", name, body)
		}
	}
	for _, r := range rest.Routes() {
		assert.Equal(t, r.Body != "", covered[r.Method+" "+r.Path], "%s %s", r.Method, r.Path)
	}
}

func TestBadParameters(t *testing.T) {
	long := strings.Repeat("k", 64<<10+1)
	values := map[string][]string{
		"key":       {"", "%zz", "%", long},
		"lease":     {"maybe", "2"},
		"force":     {"maybe", "2", "%00"},
		"limit":     {"0", "-1", "10001", "ten", "99999999999999999999", "1e3"},
		"job_id":    {"", "1", "a-b", "1-2-3", "%zz"},
		"task_id":   {"", "1", "a-b", "1-2-3", "%zz"},
		"tenant_id": {"_all", "a%00b", "a%7fb", "%zz", strings.Repeat("t", 257)},
		"segment":   {"%zz"},
		"keys":      {"%zz"},
		"after":     {"%zz"},
		"regex":     {"(", "a{1001}", "%zz"},
	}
	for _, r := range rest.Routes() {
		for _, p := range r.Params {
			require.NotEmpty(t, values[p], "no bad values of %s", p)
			for _, v := range values[p] {
				if r.Path == "/query_segment" || p == "tenant_id" && r.Method == http.MethodGet && strings.HasSuffix(r.Path, "quotas") && v != "%zz" {
					continue // Upstream has 500 there; a tenant that cannot be is one that is not there.
				}
				q := url.Values{}
				if p != "key" && (strings.HasSuffix(r.Path, "key") || strings.HasSuffix(r.Path, "remove") || strings.HasSuffix(r.Path, "why")) {
					q.Set("key", "k")
				}
				what := fmt.Sprintf("%s %s?%s=%.20s", r.Method, r.Path, p, v)
				m := full()
				w := askBody(m, r.Method, r.Path+"?"+q.Encode()+"&"+p+"="+v, examples()[r.Method+" "+r.Path].body)
				isFailure(t, w, 400, what)
			}
		}
		if strings.HasPrefix(r.Path, "/api/") {
			m := full()
			w := askBody(m, r.Method, r.Path+"?tennant_id=t", examples()[r.Method+" "+r.Path].body)
			isFailure(t, w, 400, "a mistyped parameter: "+r.Path)
			assert.Contains(t, w.Body.String(), "tennant_id")
			assert.Empty(t, m.asked)
		}
	}
}
