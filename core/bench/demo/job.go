package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/trace"
	"github.com/mooncake-go/mooncake/core/bench/worker"
	"github.com/mooncake-go/mooncake/core/bench/workload"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Job is what a worker process gets on its standard input, as one JSON object.
type Job struct {
	Worker  worker.Config   `json:"worker"`
	Workers int             `json:"workers"`
	Load    workload.Config `json:"load"`
	Trace   string          `json:"trace,omitempty"`
	// Master and Metadata are where the pool is.
	Master   string `json:"master"`
	Metadata string `json:"metadata"`
	Checksum bool   `json:"checksum"`
	// Protocol is the transport plugin that moves the pages.
	Protocol string `json:"protocol"`
	// TransportMode is where it runs, and PluginDirs where its binary is looked for.
	TransportMode string   `json:"transport_mode,omitempty"`
	PluginDirs    []string `json:"plugin_dirs,omitempty"`
	// Transport is what the transport is set to, beside its own defaults.
	Transport map[string]string `json:"transport,omitempty"`
	// Security says how the worker proves who it is.
	Security config.Security `json:"security,omitzero"`
	// Tiers says that the stores have storage tiers.
	Tiers bool `json:"tiers,omitempty"`
	// TiersEvict says that the tiers have less space than the load, so that a page may leave its tier soon.
	TiersEvict bool `json:"tiers_evict,omitempty"`
	// Settings are flags with the user's own settings.
	Settings []string `json:"settings,omitempty"`
	// AllocWait is how long a put waits for space that read leases hold.
	AllocWait time.Duration `json:"alloc_wait"`
}

// maxJob bounds a job's text, in bytes.
const maxJob = 1 << 20

// ReadJob decodes a job; unknown fields are refused.
func ReadJob(r io.Reader) (Job, error) {
	dec := json.NewDecoder(io.LimitReader(r, maxJob))
	dec.DisallowUnknownFields()
	var j Job
	if err := dec.Decode(&j); err != nil {
		return Job{}, errs.Wrap(errs.InvalidParams, "demo worker: read the job", err)
	}
	return j, nil
}

// source opens the requests of all workers. close frees it.
func source(load workload.Config, path string) (src trace.Source, closeSource func(), err error) {
	if path == "" {
		g, err := workload.New(load)
		return g, func() {}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("demo: open the trace: %w", err)
	}
	return trace.Limit(trace.NewReader(f), load.Requests), func() { f.Close() }, nil
}

// Serve replays the job's share of the load against a pool and writes events to out.
func (j Job) Serve(ctx context.Context, pool worker.Pool, out io.Writer) error {
	src, closeSource, err := source(j.Load, j.Trace)
	if err != nil {
		return err
	}
	defer closeSource()
	share, err := workload.Split(src, j.Worker.Worker, j.Workers)
	if err != nil {
		return err
	}
	w, err := worker.New(j.Worker, pool)
	if err != nil {
		return err
	}
	return worker.Serve(ctx, w, share, out, 200*time.Millisecond)
}

// sizes is what the load amounts to.
type sizes struct {
	perWorker []int // requests
	requests  int
	distinct  int // blocks
}

// measure reads the whole load once.
func measure(opts Options) (sizes, error) {
	src, closeSource, err := source(opts.Load, opts.Trace)
	if err != nil {
		return sizes{}, err
	}
	sum, err := workload.Summarize(src)
	closeSource()
	if err != nil {
		return sizes{}, err
	}
	s := sizes{requests: sum.Requests, distinct: sum.Distinct}
	for i := range opts.Workers {
		src, closeSource, err := source(opts.Load, opts.Trace)
		if err != nil {
			return sizes{}, err
		}
		n := 0
		share, err := workload.Split(src, i, opts.Workers)
		for err == nil {
			if _, err = share.Next(); err == nil {
				n++
			}
		}
		closeSource()
		if err != io.EOF { //nolint:errorlint // a Source returns io.EOF itself
			return sizes{}, err
		}
		s.perWorker = append(s.perWorker, n)
	}
	return s, nil
}
