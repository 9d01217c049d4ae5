package storeservice

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/model"
)

type serve func(*Service, *request)

// route is one row of the table. A path that ends in / takes a key behind it.
type route struct {
	method, path string
	serve        serve
	call         *access.Call // of the table of calls, nil for none
}

func routes() []route {
	return []route{
		{method: "PUT", path: "/api/put", serve: (*Service).put},
		{method: "GET", path: "/api/get/", serve: (*Service).get},
		{method: "GET", path: "/api/exist/", serve: (*Service).exist},
		{method: "DELETE", path: "/api/remove/", serve: (*Service).remove},
		{method: "DELETE", path: "/api/remove_all", serve: (*Service).removeAll},
		{method: "POST", path: "/api/mount", serve: (*Service).mount},
		{method: "POST", path: "/api/unmount", serve: (*Service).unmount},
		{method: "POST", path: "/api/mount_shm", serve: (*Service).mountShm},
		{method: "POST", path: "/api/unmount_shm", serve: (*Service).unmountShm},
		{method: "POST", path: "/api/unmount_local_disk", serve: (*Service).unmountLocalDisk},
		{method: "POST", path: "/api/reconfigure", serve: (*Service).reconfigure},
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
	// failure is why the request failed.
	failure error
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
	if do.serve == nil {
		var allowed []string
		for m := range methods {
			allowed = append(allowed, m)
		}
		slices.Sort(allowed)
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		q.fail(http.StatusMethodNotAllowed, "Method not allowed", nil)
		return
	}
	if err := s.may(r.Context(), do.call); err != nil {
		w.Header().Set("Connection", "close") // The body is not read.
		q.fail(http.StatusForbidden, "Forbidden", err)
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
	do.serve(s, q)
	s.opts.Access.Done(r.Context(), do.call, r.URL.Path, q.failure)
}

// may refuses a peer whose role may not make a call, or whose tenant is another one.
func (s *Service) may(ctx context.Context, c *access.Call) error {
	err := s.opts.Access.Check(ctx, c)
	if err == nil && c != nil && !c.Pool {
		_, err = s.opts.Access.Tenant(ctx, c, cmp.Or(s.opts.Tenant, model.DefaultTenant))
	}
	return err
}

// find looks the path up and takes the key out of it. Everything behind the route's path
// is the key, also slashes; percent signs are decoded once.
func (s *Service) find(q *request) (map[string]route, bool) {
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
