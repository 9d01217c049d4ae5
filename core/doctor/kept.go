package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/vault"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// keepsFiles reports whether the node has its memory in files of a directory, or is to find a keeper at a path.
func (e *exam) keepsFiles() bool { return e.node() && strings.HasPrefix(e.cfg.Store.Keep, "/") }

// kept looks at the directory in which the node is to have its memory, and for memory that no process uses.
func (e *exam) kept(context.Context) Result {
	path := e.cfg.Store.Keep
	found, err := e.Kept(path)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return ok("%s is no directory: the node finds a keeper there", path)
	case errors.Is(err, fs.ErrNotExist):
		return warn(path+" does not exist", "the node waits 10 s for a keeper that listens there, and then does not start",
			fmt.Sprintf("mkdir -m 700 %s, or run 'mooncake keep --socket %s'", path, path))
	case err != nil:
		var hint *errs.Error
		do := "look at the directory"
		if errors.As(err, &hint) && hint.Hint != "" {
			do = hint.Hint
		}
		return fail(cause(err), "the node refuses to start", do)
	}
	r := ok("%s has memory of %s", path, count(len(found.Left), "store"))
	stranded := uint64(0)
	for _, l := range found.Left {
		state := "in use"
		switch mine := l.Of(vault.OwnerOf(e.cfg.Store.ClusterID, e.cfg.Store.LocalHostname)); {
		case !l.Used && mine:
			state = "of no process; the next store takes it"
		case !l.Used:
			state = "of no process, and of another cluster or host name"
			stranded += l.Bytes
		}
		r.Details = append(r.Details, fmt.Sprintf("%s: %s, %s", l.Folder, memory.Human(l.Bytes), state))
	}
	if stranded > 0 {
		r.Status, r.Why = Warn, fmt.Sprintf("%s stay occupied until a store with that cluster_id and local_hostname starts", memory.Human(stranded))
		r.Do = "if no such store will return, remove its folder: rm -r " + path + "/FOLDER"
	}
	return r
}

// directory is what the directory of the node has, empty where it has none.
func (e *exam) directory() vault.Found {
	if !e.keepsFiles() || e.Kept == nil {
		return vault.Found{}
	}
	found, _ := e.Kept(e.cfg.Store.Keep) //nolint:errcheck // The check of kept memory says so.
	return found
}

// reused is the memory in files that the node goes on with, in bytes.
func (e *exam) reused() (most uint64) {
	for _, l := range e.directory().Left {
		if !l.Used && l.Of(vault.OwnerOf(e.cfg.Store.ClusterID, e.cfg.Store.LocalHostname)) {
			most = max(most, l.Bytes)
		}
	}
	return min(most, uint64(e.cfg.Store.GlobalSegmentSize))
}
