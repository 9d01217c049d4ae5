package storeservice

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
)

type serve func(*Service, *request)

// route is one row of the table. A path that ends in / takes a key behind it.
type route struct {
	method, path string
	serve        serve
}

func routes() []route {
	return []route{
		{"PUT", "/api/put", (*Service).put},
		{"GET", "/api/get/", (*Service).get},
		{"GET", "/api/exist/", (*Service).exist},
		{"DELETE", "/api/remove/", (*Service).remove},
		{"DELETE", "/api/remove_all", (*Service).removeAll},
		{"POST", "/api/mount", (*Service).mount},
		{"POST", "/api/unmount", (*Service).unmount},
		{"POST", "/api/mount_shm", (*Service).mountShm},
		{"POST", "/api/unmount_shm", (*Service).unmountShm},
		{"POST", "/api/unmount_local_disk", (*Service).unmountLocalDisk},
		{"POST", "/api/reconfigure", (*Service).reconfigure},
	}
}

// request is one request in progress.
type request struct {
	w    http.ResponseWriter
	r    *http.Request
	ctx  context.Context // ends with the client, or after callWait
	key  model.Key
	pace *pacer
	held int64  // of Service.memory
	mode string // said in errors, where it is given
}

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := &request{w: w, r: r, pace: newPacer(w)}
	methods, ok := s.find(q)
	if !ok {
		q.fail(http.StatusNotFound, "Not found", nil)
		return
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	do := methods[method]
	if do == nil {
		var allowed []string
		for m := range methods {
			allowed = append(allowed, m)
		}
		slices.Sort(allowed)
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		q.fail(http.StatusMethodNotAllowed, "Method not allowed", nil)
		return
	}
	if q.key != "" {
		if err := model.ValidateKey(q.key); err != nil {
			q.fail(http.StatusBadRequest, "Invalid key", err)
			return
		}
	}
	var cancel context.CancelFunc
	q.ctx, cancel = context.WithTimeout(r.Context(), callWait)
	defer cancel()
	defer s.release(q)
	q.pace.forCall(callWait + time.Minute)
	do(s, q)
}

// find looks the path up and takes the key out of it. Everything behind the route's path
// is the key, also slashes; percent signs are decoded once.
func (s *Service) find(q *request) (map[string]serve, bool) {
	path := q.r.URL.EscapedPath()
	if methods, ok := s.resources[path]; ok && !strings.HasSuffix(path, "/") {
		return methods, true
	}
	for prefix, methods := range s.resources {
		rest, ok := strings.CutPrefix(path, prefix)
		if !ok || rest == "" || !strings.HasSuffix(prefix, "/") {
			continue
		}
		key, err := url.PathUnescape(rest)
		q.key = key
		return methods, err == nil
	}
	return nil, false
}
