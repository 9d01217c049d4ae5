package storeservice_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mooncake-go/mooncake/core/api/rest/storeservice"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// FuzzBodies: every body of every route is answered in JSON with a status of the table,
// and what is mounted by it can be unmounted.
func FuzzBodies(f *testing.F) {
	for _, x := range exchanges() {
		for i, r := range storeservice.Routes() {
			if r[1] == x.target {
				f.Add(uint8(i), []byte(x.body))
			}
		}
	}
	routes := storeservice.Routes()
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		r := routes[int(which)%len(routes)]
		if strings.HasSuffix(r[1], "/") {
			r[1] += "key"
		}
		w := newWorld(t, storeservice.Options{MaxBody: 1 << 16})
		rec := w.do(r[0], r[1], string(body))
		switch rec.Code {
		case 200, 400, 404, 413, 500:
		default:
			t.Fatalf("%v %q: status %d", r, body, rec.Code)
		}
		if !json.Valid(rec.Body.Bytes()) {
			t.Fatalf("%v %q: %q", r, body, rec.Body)
		}
		for key, value := range w.objects {
			if key == "" || len(value) == 0 || !utf8.ValidString(key) || !utf8.Valid(value) {
				t.Fatalf("%q: put %q: %q", body, key, value)
			}
		}
		for _, s := range w.Segments() {
			if code := w.do("POST", "/api/unmount", `{"segment_ids":"`+s.ID.String()+`"}`).Code; code != 200 {
				t.Fatalf("%v %q: what it mounted cannot be unmounted: %d", r, body, code)
			}
		}
	})
}

// FuzzTexts: a text comes out of a body as it went in, or the body is refused.
func FuzzTexts(f *testing.F) {
	for _, s := range []string{"x", "\x00", "\"\\", "𝄞", "\ufffd", "<&>", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		body, err := json.Marshal(map[string]string{"value": s})
		if err != nil {
			t.Skip()
		}
		got, err := storeservice.Parse(body)
		if utf8.ValidString(s) && (err != nil || got["value"] != s) {
			t.Fatalf("%q came out as %q, %v", s, got["value"], err)
		}
		raw, err := storeservice.Parse([]byte(`{"value":"` + s + `"}`))
		if err == nil && strings.ContainsRune(raw["value"], '\ufffd') && !strings.Contains(s, "\ufffd") && !strings.Contains(strings.ToLower(s), "fffd") {
			t.Fatalf("%q was changed to %q", s, raw["value"])
		}
	})
}

// FuzzKeys: every key that a path can carry is found under the name it was put under.
func FuzzKeys(f *testing.F) {
	for _, s := range []string{"a", "a/b", "/", "//", "..", "a/../b", "%", "%2f", "ä", " ", "a?b", "a#b", "\xff", "+"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if key == "" || len(key) > 1000 {
			t.Skip()
		}
		w := newWorld(t, storeservice.Options{})
		w.objects[key] = []byte("it")
		request := httptest.NewRequest(http.MethodGet, "/api/get/"+url.PathEscape(key), nil)
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, request)
		if rec.Code != 200 || rec.Body.String() != "it" {
			t.Fatalf("%q: %d %s", key, rec.Code, rec.Body)
		}
	})
}
