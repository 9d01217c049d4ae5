package storeservice

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/core/model"
)

// source is a range of a file that is to be contributed.
type source struct {
	dir, name    string // the file, below one of Options.Dirs
	offset, size uint64
}

func (src *source) path() string { return src.dir + "/" + src.name }

// mountShm contributes a range of a file of /dev/shm.
func (s *Service) mountShm(q *request) {
	f, ok := s.decode(q, maxControl, http.StatusInternalServerError)
	if !ok {
		return
	}
	name, err := f.text("name")
	src := source{dir: s.opts.Dirs[0], name: strings.TrimPrefix(name, "/")}
	if err != nil || !plainName(src.name) {
		q.fail(http.StatusBadRequest, "Invalid name: must be the name of a file in /dev/shm", err)
		return
	}
	if !src.place(q, f) {
		return
	}
	if !s.takeTurn(q) {
		return
	}
	defer s.yield()
	ids, err := s.contribute(q.ctx, src, f)
	if err != nil {
		s.refused(q, "Mount shm operation failed", err)
		return
	}
	q.success(mounted{Status: "success", IDs: texts(ids)})
}

// plainName reports a name that stays in its folder.
func plainName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= 255 && !strings.ContainsAny(name, "/\x00")
}

// place reads size and offset. When they are wrong it answers and reports false.
func (src *source) place(q *request, f fields) bool {
	var err error
	if src.size, err = f.whole("size", 0); err != nil || src.size == 0 {
		q.fail(http.StatusBadRequest, "Invalid size: must be a positive integer", err)
		return false
	}
	if src.offset, err = f.whole("offset", 0); err != nil || src.offset > math.MaxInt64-src.size {
		q.fail(http.StatusBadRequest, "Invalid offset: must be a non-negative integer", err)
		return false
	}
	return true
}

// errParameters is what the caller got wrong: 400.
type errParameters string

func (e errParameters) Error() string { return string(e) }

// errForbidden is what the settings do not allow: 403.
type errForbidden string

func (e errForbidden) Error() string { return string(e) }

// allow refuses a file that Options.Files does not allow, because whoever reaches this port could
// have it overwritten.
func (s *Service) allow(path string) error {
	if slices.ContainsFunc(s.opts.Files, func(prefix string) bool { return strings.HasPrefix(path, prefix) }) {
		return nil
	}
	return errForbidden(fmt.Sprintf("%s may not be mounted: store.rest_files (--rest_files) does not allow it; add the beginning of its path there if the pool may overwrite it", path))
}

// contribute maps src and mounts it. What is mapped is freed with the segment.
func (s *Service) contribute(ctx context.Context, src source, f fields) ([]model.SegmentID, error) {
	o, err := s.mountOptions(f)
	if err != nil {
		return nil, errParameters(err.Error())
	}
	if err := s.allow(src.path()); err != nil {
		return nil, err
	}
	if o.Memory, o.Freed, err = mapFile(src, s.allow); err != nil {
		return nil, err
	}
	return s.segments.MountSegment(ctx, o)
}

func (s *Service) refused(q *request, text string, err error) {
	var wrong errParameters
	var forbidden errForbidden
	switch {
	case errors.As(err, &wrong):
		q.fail(http.StatusBadRequest, "Invalid parameters", err)
	case errors.As(err, &forbidden):
		s.log.Warn("store service: request refused", "path", q.r.URL.Path, "error", err)
		q.fail(http.StatusForbidden, text, err)
	default:
		s.failed(q, text, err)
	}
}

// locate finds the file that path names, which must lie in one of the folders.
func (s *Service) locate(path string) (source, error) {
	clean := filepath.Clean(path)
	for _, dir := range s.opts.Dirs {
		if name, ok := strings.CutPrefix(clean, dir+"/"); ok && name != "" && !strings.ContainsRune(name, 0) {
			return source{dir: dir, name: name}, nil
		}
	}
	return source{}, errParameters(fmt.Sprintf("path %q is not in %s; whoever reaches this port could have any other file overwritten", path, strings.Join(s.opts.Dirs, " or ")))
}
