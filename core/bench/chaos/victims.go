package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/bench/demo"
	"github.com/mooncake-go/mooncake/core/bench/trace"
	"github.com/mooncake-go/mooncake/core/bench/worker"
	"github.com/mooncake-go/mooncake/core/bench/workload"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// victims are client processes, workers of the demo, that are killed while they put.
type victims struct {
	procs  []*cluster.Proc
	blocks []uint64 // what they put, in the order of the load
	pages  *pages
}

const (
	victimCount = 2
	// victimRequests bounds the load of the workers, which are killed long before its end.
	victimRequests = 4096
	// victimBlocks bounds the blocks that are looked up afterwards.
	victimBlocks = 4096
	// victimThink keeps the workers from filling the pool before they are killed.
	victimThink = 10 * time.Millisecond
)

// startVictims starts the workers and returns while they put.
func startVictims(ctx context.Context, p *pool, own *pages) (*victims, error) {
	load := workload.Default()
	load.Requests = victimRequests
	v := &victims{pages: &pages{client: own.client, model: "chaos-client", seed: own.seed, size: own.size, replicas: own.replicas, tally: own.tally}}
	var err error
	if v.blocks, err = distinct(load, victimBlocks); err != nil {
		return nil, err
	}
	for i := range victimCount {
		job := demo.Job{
			Worker: worker.Config{Worker: i, Model: v.pages.model, Seed: own.seed, PageSize: own.size, Window: 16, Think: victimThink},
			Load:   load, Workers: victimCount, Master: p.address(), Metadata: "P2PHANDSHAKE", Checksum: true, Protocol: "tcp",
			Security: p.secure.Of(security.RoleClient),
		}
		text, err := json.Marshal(job)
		if err != nil {
			v.kill()
			return nil, err
		}
		proc, err := cluster.Start(cluster.Spec{
			Name: "client-" + strconv.Itoa(i+1), Program: p.opts.Program, Args: []string{"demo-worker"}, Env: p.opts.Environ,
			Stdin: bytes.NewReader(text),
		})
		if err != nil {
			v.kill()
			return nil, err
		}
		v.procs = append(v.procs, proc)
	}
	err = cluster.Poll(v.procs[0], readyTimeout, func() error {
		there, err := v.there(ctx)
		if err == nil && len(there) < 2*victimCount {
			err = errors.New("it has put nothing yet")
		}
		return err
	})
	if err != nil {
		v.kill()
		return nil, err
	}
	pause(ctx, rand.N(300*time.Millisecond))
	return v, nil
}

// distinct returns the first n blocks of a load, each once.
func distinct(load workload.Config, n int) (blocks []uint64, err error) {
	src, err := workload.New(load)
	if err != nil {
		return nil, err
	}
	seen := map[uint64]bool{}
	for len(blocks) < n {
		var req trace.Request
		if req, err = src.Next(); err != nil {
			return nil, fmt.Errorf("chaos: the load of the clients is too short: %w", err)
		}
		for _, b := range req.Blocks {
			if !seen[b] {
				seen[b] = true
				blocks = append(blocks, b)
			}
		}
	}
	return blocks[:n], nil
}

// kill ends the workers with SIGKILL. It may be called again.
func (v *victims) kill() {
	for _, p := range v.procs {
		p.Kill()
	}
}

// there returns the blocks of the load that the pool says it has.
func (v *victims) there(ctx context.Context) (there []uint64, err error) {
	for at := 0; at < len(v.blocks); at += worker.LookupBatch {
		batch := v.blocks[at:min(at+worker.LookupBatch, len(v.blocks))]
		keys := make([]model.Key, len(batch))
		for i, b := range batch {
			keys[i] = v.pages.key(b)
		}
		for i, r := range v.pages.client.BatchExist(ctx, keys) {
			if r.Err != nil {
				return nil, r.Err
			}
			if r.Value {
				there = append(there, batch[i])
			}
		}
	}
	return there, nil
}

// check reads all that the workers have left behind, whole and in ranges; wrong bytes are recorded.
func (v *victims) check(ctx context.Context) error {
	there, err := v.there(ctx)
	if err != nil {
		return errs.WithHint(err, "the clients that were killed had put pages, which cannot be looked up now")
	}
	for _, b := range there {
		v.pages.read(ctx, b)       //nolint:errcheck // wrong bytes are recorded; lost pages are not counted
		v.pages.readRanges(ctx, b) //nolint:errcheck // likewise
	}
	return nil
}
