package httpd

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWebPagesOfOthersChangeNothing(t *testing.T) {
	served := 0
	h := browserSafe(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }), func(r *http.Request) bool { return r.URL.Path == "/lease" })
	const form = "application/x-www-form-urlencoded"
	for _, c := range []struct {
		method, path string
		head         map[string]string
		status       int
	}{
		{"POST", "/remove", map[string]string{"Content-Type": form}, 200}, // curl -d
		{"PUT", "/put", nil, 200},
		{"DELETE", "/x", nil, 200},
		{"GET", "/lease", nil, 200},
		{"POST", "/remove", map[string]string{"Origin": "http://evil.example", "Content-Type": form}, 403},
		{"POST", "/remove", map[string]string{"Origin": "null"}, 403},
		{"POST", "/remove", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"PUT", "/put", map[string]string{"Sec-Fetch-Site": "same-site", "Content-Type": "application/json"}, 403},
		{"DELETE", "/x", map[string]string{"Origin": "http://evil.example"}, 403},
		{"GET", "/lease", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"GET", "/lease", map[string]string{"Origin": "http://evil.example"}, 403},
		{"GET", "/lease", map[string]string{"Sec-Fetch-Site": "none"}, 200},
		{"GET", "/metrics", map[string]string{"Sec-Fetch-Site": "cross-site"}, 200}, // a link of a dashboard
		{"POST", "/remove", map[string]string{"Origin": "http://pool:9003", "Content-Type": "application/json"}, 200},
		{"POST", "/remove", map[string]string{"Sec-Fetch-Site": "same-origin", "Content-Type": form + "; charset=utf-8"}, 415},
		{"PATCH", "/x", map[string]string{"Sec-Fetch-Site": "same-origin", "Content-Type": "text/plain"}, 415},
		{"POST", "/x", map[string]string{"Origin": "http://pool:9003", "Content-Type": "multipart/form-data; boundary=a"}, 415},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, "http://pool:9003"+c.path, strings.NewReader("a=b"))
		for k, v := range c.head {
			r.Header.Set(k, v)
		}
		before, w := served, httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, c.status, w.Code, "%s %s %v", c.method, c.path, c.head)
		assert.Equal(t, c.status == 200, served > before, "%s %s %v", c.method, c.path, c.head)
		assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		assert.Equal(t, "default-src 'none'; frame-ancestors 'none'", w.Header().Get("Content-Security-Policy"))
		assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	}
}
