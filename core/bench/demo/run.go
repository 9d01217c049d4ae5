// Package demo runs the main job on this machine: a master with an embedded metadata
// server, store nodes and inference workers, each a process of its own on loopback. The
// workers replay a conversation load against a pool smaller than its working set and
// verify every page they read.
//
// It starts processes and adds up what they report; what a worker does is
// core/bench/worker.
package demo

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/bench/progress"
	"github.com/mooncake-go/mooncake/core/bench/report"
	"github.com/mooncake-go/mooncake/core/bench/worker"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// Run runs the demo and ends every process that it started, also on an error. The report
// is valid with an error of a worker and then holds what the others did. Facts that need
// measuring beside the run (the checksum's speed) are the caller's, see checksumGBps.
func Run(ctx context.Context, opts Options, checksumGBps float64) (report.Report, error) {
	if err := opts.Validate(); err != nil {
		return report.Report{}, err
	}
	load, err := measure(opts)
	if err != nil {
		return report.Report{}, err
	}
	if opts.Tiers && load.distinct <= opts.poolPages() {
		return report.Report{}, errs.New(errs.InvalidParams, "demo", "a pool of %d pages with tiers, and the load has %d: use more requests or a smaller pool, so that some pages lie on a storage tier only", opts.poolPages(), load.distinct)
	}
	p, err := newPool(ctx, opts, opts.tierSize(load.distinct))
	if err != nil {
		return report.Report{}, err
	}
	rep, err := p.replay(ctx, load, checksumGBps)
	return rep, errors.Join(err, p.close())
}

// replay runs the workers over a pool that is up.
func (p *pool) replay(ctx context.Context, load sizes, checksumGBps float64) (report.Report, error) {
	began := time.Now()
	workers := make([]*runner, 0, p.opts.Workers)
	defer func() {
		for _, r := range workers {
			r.proc.Kill()
			<-r.done
		}
	}()
	for i := range p.opts.Workers {
		r, err := p.startWorker(ctx, p.job(i, load.perWorker[i]))
		if err != nil {
			return report.Report{}, err
		}
		workers = append(workers, r)
	}

	show := progress.New(p.opts.Progress, load.perWorker)
	defer show.Close()
	if p.note != "" {
		show.Note(p.note)
	}
	killer := killer{pool: p, workers: workers, total: load.requests}
	damage := corruptor{pool: p, total: load.requests}
	update := func() {
		for i, r := range workers {
			if latest := r.latest.Load(); latest != nil {
				show.Update(i, *latest)
			}
		}
	}
	failed := wait(ctx, workers, func() error {
		update()
		for _, trouble := range []func(context.Context, uint64) (string, error){killer.tick, damage.tick} {
			note, err := trouble(ctx, requests(workers))
			if note != "" {
				show.Note(note)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	elapsed := time.Since(began)
	update()
	if failed == nil {
		failed = killer.missed()
	}

	// Also after an interrupt: what was done until then is reported.
	evictions, err := p.counter(context.WithoutCancel(ctx), evictedKeys)
	var unsaved uint64
	if p.opts.Tiers {
		var e error
		unsaved, e = p.counter(context.WithoutCancel(ctx), evictedUnsaved)
		err = errors.Join(err, e)
	}
	results := make([]worker.Result, 0, len(workers))
	for _, r := range workers {
		select {
		case <-r.done:
			if r.result != nil {
				results = append(results, *r.result)
			}
		default: // still running: wait ended early
		}
	}
	rep := report.Build(results, report.Facts{
		Plugins:   p.plugins(context.WithoutCancel(ctx)),
		Evictions: evictions + killer.evictions, PageSize: p.opts.PageSize,
		PoolBytes:       uint64(p.opts.poolPages()) * p.opts.PageSize,
		WorkingSetBytes: uint64(load.distinct) * p.opts.PageSize,
		Elapsed:         elapsed, ChecksumGBps: checksumGBps,
		Tiered: p.opts.Tiers, EvictedUnsaved: unsaved + killer.unsaved,
	})
	return rep, errors.Join(failed, err)
}

func (p *pool) job(i, total int) Job {
	return Job{
		Worker: worker.Config{
			Worker: i, Total: total, Model: "demo", Seed: p.opts.Load.Seed,
			PageSize: int(p.opts.PageSize), Window: p.opts.Window, Think: p.opts.Think,
		},
		Workers: p.opts.Workers, Load: p.opts.Load, Trace: p.opts.Trace,
		Master: p.rpc, Metadata: p.meta, Checksum: p.opts.Checksum, Protocol: p.opts.Protocol, TransportMode: p.opts.TransportMode, PluginDirs: p.opts.PluginDirs,
		Transport: p.transport, Security: p.security.Of(security.RoleClient), Tiers: p.opts.Tiers, TiersEvict: p.opts.TierBytes > 0,
		AllocWait: max(10*p.opts.LeaseTTL, 2*time.Second), Settings: SettingsArgs(p.opts.Config, p.opts.Set),
	}
}

// killer ends a process once, at its share of the load.
type killer struct {
	pool    *pool
	workers []*runner
	total   int
	done    bool
	// evictions and unsaved are what a killed master had counted.
	evictions, unsaved uint64
}

func (k *killer) tick(ctx context.Context, requests uint64) (note string, err error) {
	kill := k.pool.opts.Kill
	if kill == nil || k.done || float64(requests) < kill.At*float64(k.total) {
		return "", nil
	}
	k.done = true
	what, err := k.strike(ctx, kill)
	return fmt.Sprintf("killed %s (SIGKILL) after %d of %d requests", what, requests, k.total), err
}

// victim returns the plugin of a role, and the process that has it.
func (k *killer) victim(role string) (*cluster.Proc, plugin.ID) {
	o := k.pool.opts
	switch role {
	case plugin.KindEvict:
		return k.pool.master, plugin.ID{Kind: role, Name: o.Evictor}
	case plugin.KindAlloc:
		return k.pool.master, plugin.ID{Kind: role, Name: o.Allocator}
	case workerTransport:
		return k.workers[0].proc, plugin.ID{Kind: plugin.KindTransport, Name: o.Protocol}
	default:
		return k.pool.stores[0], plugin.ID{Kind: plugin.KindTransport, Name: o.Protocol}
	}
}

// strike kills, and returns what was killed.
func (k *killer) strike(ctx context.Context, kill *Kill) (what string, err error) {
	p := k.pool
	switch kill.Role {
	case "store":
		victim := p.stores[0]
		victim.Kill()
		p.stores = p.stores[1:]
		return victim.Name, nil
	case "master":
		if k.evictions, err = p.counter(ctx, evictedKeys); err != nil {
			return "", err
		}
		if k.unsaved, err = p.counter(ctx, evictedUnsaved); err != nil {
			return "", err
		}
		p.master.Kill()
		if err := p.startMaster(ctx); err != nil {
			return "", err
		}
		return "the master, which is back with all stores mounted again,", p.waitMounted(ctx, p.opts.Stores)
	default:
		host, id := k.victim(kill.Role)
		pid, err := cluster.Descendant(host.PID(), id.BinaryName())
		if err != nil {
			return "", errs.WithHint(err, "%s runs inside %s; --plugin-mode subprocess and --transport-mode subprocess give plugins processes of their own", id, host.Name)
		}
		return "the process of " + id.String() + " of " + host.Name, syscall.Kill(pid, syscall.SIGKILL)
	}
}

// The master's counters of evicted objects, and of those among them that a storage tier was to get.
const (
	evictedKeys    = "master_evicted_key_count"
	evictedUnsaved = "master_evicted_unsaved_total"
)

// missed reports that the load ended before its share was reached.
func (k *killer) missed() error {
	if k.pool.opts.Kill == nil || k.done {
		return nil
	}
	return fmt.Errorf("demo: the load ended before %s came due; use more requests", k.pool.opts.Kill)
}
