package http_test

import (
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mooncake-go/mooncake/core/metadata/http"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
)

// TestBadInput: nothing of it is an error of the server, and nothing is stored or lost.
func TestBadInput(t *testing.T) {
	store := memory.New(memory.Limits{ValueSize: 16})
	h := http.NewHandler(store, nil)
	ask := func(method, target, body string, length int64) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, target, io.NopCloser(strings.NewReader(body)))
		r.ContentLength = length
		h.ServeHTTP(w, r)
		return w
	}
	assert.Equal(t, nethttp.StatusOK, ask("PUT", "/metadata?key=kept", "v", 1).Code)
	for _, c := range []struct {
		method, target, body string
		status               int
		text                 string
	}{
		{"POST", "/metadata?key=kept", "w", 404, "404 Not Found"},
		{"PATCH", "/metadata?key=kept", "w", 404, "404 Not Found"},
		{"BREW", "/metadata?key=kept", "", 404, "404 Not Found"},
		{"PUT", "/health", "w", 404, "404 Not Found"},
		{"GET", "/metadata/kept", "", 404, "404 Not Found"},
		{"GET", "/", "", 404, "404 Not Found"},
		{"PUT", "/metadata", "w", 400, "Missing key parameter"},
		{"PUT", "/metadata?key=", "w", 400, "Missing key parameter"},
		{"PUT", "/metadata?key=%", "w", 400, "Missing key parameter"},
		{"DELETE", "/metadata?key=%zz", "", 400, "Missing key parameter"},
		{"DELETE", "/metadata?key=kep%FF", "", 404, "metadata not found"},
		{"PUT", "/metadata?key=kept", strings.Repeat("x", 17), 413, "The value is larger than 16 bytes"},
	} {
		for _, length := range []int64{int64(len(c.body)), -1} { // with its size, and in chunks
			w := ask(c.method, c.target, c.body, length)
			assert.Equal(t, c.status, w.Code, c.method+c.target)
			assert.Equal(t, c.text, w.Body.String(), c.method+c.target)
		}
	}
	assert.Equal(t, "v", ask("GET", "/metadata?key=kept", "", 0).Body.String())
	assert.Equal(t, 1, store.Len())
	assert.Equal(t, nethttp.StatusOK, ask("PUT", "/metadata?key=%FF%00", "w", 1).Code)
	assert.Equal(t, "w", ask("GET", "/metadata?key=%FF%00&key=kept", "", 0).Body.String(), "the first of two counts")
}
