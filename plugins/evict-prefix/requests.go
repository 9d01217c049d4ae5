package prefix

import (
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/ranked"
)

// request is a chain of pages that is being written or read. Its objects are ranked when it is
// over, since only then is it known how long it is.
type request struct {
	pages ranked.List // the last one in front
	last  evict.ID    // 0 for a request that is over
	count uint32      // pages, and one for a known page that it goes on from
	added uint32      // pages never seen before
	time  uint64      // of the last use
}

const (
	openRequests = 16
	// idleEvents is how many uses may pass before a request is taken to be over.
	idleEvents = 24
)

// requests are the open ones.
type requests struct {
	open   [openRequests]request
	recent int // where the last use belonged
}

func (r *requests) init(set *objects) {
	for i := range r.open {
		r.open[i].pages = set.NewList()
	}
}

// of returns the request that an object with this parent goes on with, or nil.
func (r *requests) of(parent evict.ID) *request {
	if parent == 0 {
		return nil
	}
	if q := &r.open[r.recent]; q.last == parent {
		return q
	}
	for i := range r.open {
		if q := &r.open[i]; q.last == parent {
			r.recent = i
			return q
		}
	}
	return nil
}

// oldest returns the request that waits longest, or one that is over.
func (r *requests) oldest() *request {
	for i := range r.open {
		if r.open[i].time < r.open[r.recent].time {
			r.recent = i
		}
	}
	return &r.open[r.recent]
}
