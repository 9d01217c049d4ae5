package httpd

import (
	"mime"
	"net/http"
	"slices"
)

// browserSafe keeps web pages from using h through the browser of a user who reaches it. Clients
// that are no browsers send neither Origin nor Sec-Fetch-Site, and notice nothing.
//
// A request that changes something, because of its method or because changes says so of a GET, is refused
// where it comes from a page of another origin, and where its content type is one that a form can send.
func browserSafe(h http.Handler, changes func(*http.Request) bool) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		head.Set("Cache-Control", "no-store")
		changing := !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, r.Method)
		if !changing && (changes == nil || !changes(r)) || !fromBrowser(r) {
			h.ServeHTTP(w, r)
			return
		}
		asked := *r
		if !changing {
			asked.Method = http.MethodPost // The check lets every GET pass.
		}
		switch {
		case origins.Check(&asked) != nil:
			http.Error(w, "this request comes from a web page of another origin, which may not change anything here", http.StatusForbidden)
		case changing && formType(r):
			http.Error(w, "a browser sends this content type for any form; use application/json or application/octet-stream", http.StatusUnsupportedMediaType)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

func fromBrowser(r *http.Request) bool {
	for _, name := range []string{"Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode"} {
		if r.Header.Get(name) != "" {
			return true
		}
	}
	return false
}

// formType reports the content types that a browser sends without asking the server first.
func formType(r *http.Request) bool {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && slices.Contains([]string{"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"}, t)
}
