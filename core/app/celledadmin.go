package app

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/api/rest"
	rpcclient "github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/ha/campaign"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/metrics"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// handlerOfCelled is the admin port of a master of several cells. It shows the pool as one; its metrics are those of the cells
// of this process together.
func handlerOfCelled(c *celled) rest.AdminHandler {
	return rest.AdminHandler{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e, path := c.cellOf(r.URL.Path); e != nil {
			r.URL.Path = path
			e.current.Load().handler.ServeHTTP(w, r)
			return
		}
		// Until the start the pool is not there, and no request comes.
		rest.NewHandler(whole{c.pool, c}, rest.Options{Status: c.status, Doors: c.doors, Logger: c.log, Serves: c.led}).ServeHTTP(w, r)
	})}
}

// cellOf returns the cell that a path /cells/<cell>/... is about, and the rest of it, nil for another path: masters ask each other
// for what only the leader of a cell knows.
func (c *celled) cellOf(path string) (*elected, string) {
	rest, ok := strings.CutPrefix(path, "/cells/")
	number, path, _ := strings.Cut(rest, "/")
	if i, err := strconv.Atoi(number); ok && err == nil && i >= 0 && i < len(c.cells) {
		return c.cells[i], "/" + path
	}
	return nil, ""
}

// status is that of the front.
func (c *celled) status() metrics.Status { return statusOf(c.front, c.etcd) }

// led reports whether the cells are led, so that questions about objects have an answer.
func (c *celled) led() bool {
	for _, e := range c.cells {
		if !e.campaign.Status().View.Led() {
			return false
		}
	}
	return true
}

// whole is a rest.Master of all cells, from one process.
type whole struct {
	*rpcclient.Pool
	of *celled
}

const (
	// peekTimeout bounds the questions of PeekReplicas, and walkPage is how many keys WalkKeys asks for at once.
	peekTimeout = 10 * time.Second
	walkPage    = 10000
)

// PeekReplicas implements rest.Master.
func (w whole) PeekReplicas(keys []model.Key) []model.Result[model.Object] {
	ctx, cancel := context.WithTimeout(context.Background(), peekTimeout)
	defer cancel()
	out := make([]model.Result[model.Object], len(keys))
	for i, k := range keys {
		s, err := w.Why(ctx, model.Caller{}, k)
		switch {
		case err != nil:
			out[i].Err = err
		case s.Fate == model.FateReadable:
			out[i].Value = model.Object{Size: s.Size, Checksum: s.Checksum, Replicas: s.Replicas}
		case s.Fate == model.FateWriting:
			out[i].Err = errs.New(errs.ReplicaIsNotReady, "master: peek", "its put has not ended")
		default:
			out[i].Err = errs.New(errs.ObjectNotFound, "master: peek", "%s", s.Reason)
		}
	}
	return out
}

// WalkKeys implements rest.Master. It goes in the order of the keys.
func (w whole) WalkKeys(yield func(model.Key) bool) {
	for after := ""; ; {
		ctx, cancel := context.WithTimeout(context.Background(), peekTimeout)
		keys, err := w.ListKeys(ctx, model.Caller{}, "", after, walkPage)
		cancel()
		if err != nil {
			w.of.log.Warn("admin: the list of keys is not complete", "error", err)
			return
		}
		for _, k := range keys {
			if !yield(k) {
				return
			}
		}
		if len(keys) == 0 {
			return
		}
		after = keys[len(keys)-1]
	}
}

// services are the masters of the cells in this process, in order.
func (w whole) services() []*master.Service {
	var out []*master.Service
	for _, e := range w.of.cells {
		out = append(out, e.current.Load().service)
	}
	return out
}

// KVEvents implements rest.Master, of this process.
func (w whole) KVEvents() model.KVEventStats {
	var sum model.KVEventStats
	for _, s := range w.services() {
		one := s.KVEvents()
		sum.Enabled = sum.Enabled || one.Enabled
		sum.Batches, sum.Events, sum.Dropped, sum.Skipped = sum.Batches+one.Batches, sum.Events+one.Events, sum.Dropped+one.Dropped, sum.Skipped+one.Skipped
		sum.Subscribers, sum.Missed = sum.Subscribers+one.Subscribers, sum.Missed+one.Missed
	}
	return sum
}

// Summary implements rest.Master: a part for each cell that this process leads.
func (w whole) Summary() string {
	var parts []string
	for i, s := range w.leading() {
		if s != nil {
			parts = append(parts, fmt.Sprintf("Cell %d: %s", i, s.Summary()))
		}
	}
	return strings.Join(parts, " || ")
}

// Metrics implements rest.Master, of this process.
func (w whole) Metrics() prometheus.Gatherer {
	var all prometheus.Gatherers
	for _, s := range w.services() {
		all = append(all, s.Metrics())
	}
	return metrics.Together(all)
}

// leading are the cells that this process leads, by their index, nil for the others.
func (w whole) leading() []*master.Service {
	out := w.services()
	for i, e := range w.of.cells {
		if e.campaign.Status().State != campaign.Serving {
			out[i] = nil
		}
	}
	return out
}
