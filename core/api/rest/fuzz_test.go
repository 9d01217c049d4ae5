package rest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzQuery: what is escaped comes back, and whatever else is given does no harm.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{"key=a+b", "key=%zz", "a=1&a=2", "=&&=", "key=%FF%00", "regex=a{2}&limit=1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if q, err := parseQuery(s); err == nil {
			_, _ = q.flag("force", false)
			if n, err := q.number("limit", 5, 10); err == nil && (n < 1 || n > 10) {
				t.Fatalf("%q: limit %d", s, n)
			}
			if k, err := q.key(); err == nil && (k == "" || k != q["key"]) {
				t.Fatalf("%q: key %q", s, k)
			}
		}
		q, err := parseQuery("a=1&key=" + escape(s) + "&b=2")
		if err != nil || q["key"] != s || len(q) != 3 {
			t.Fatalf("%q came back as %q, %v", s, q, err)
		}
	})
}

// FuzzBodies: a body is refused, or it is UTF-8 and one JSON value, and what it turns
// into is within the bounds.
func FuzzBodies(f *testing.F) {
	for _, s := range []string{`{"segments":["a"],"max_concurrency":4}`, `{"kind":"copy","key":"k","targets":["a"]}`, `{"requested_quota_bytes":1}`, "{}{}", "\xff", "null"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		body := func() *http.Request { return httptest.NewRequest(http.MethodPost, "/", strings.NewReader(s)) }
		var d DrainRequest
		if readJSON(body(), &d, false) == nil {
			if !utf8.ValidString(s) || !json.Valid([]byte(s)) {
				t.Fatalf("%q was taken", s)
			}
			if spec, err := d.spec(); err == nil && (spec.MaxConcurrency < 1 || spec.MaxConcurrency > maxMoves || len(spec.Segments) == 0) {
				t.Fatalf("%q: %+v", s, spec)
			}
		}
		var k TaskRequest
		if readJSON(body(), &k, true) == nil {
			if spec, err := k.spec(); err == nil && (spec.Key == "" || len(spec.Targets) == 0) {
				t.Fatalf("%q: %+v", s, spec)
			}
		}
		var q quotaRequest
		if readJSON(body(), &q, true) == nil {
			if n, err := q.bytes(); err == nil && (n == 0 || n > 1<<63-1) {
				t.Fatalf("%q: %d bytes", s, n)
			}
		}
	})
}
