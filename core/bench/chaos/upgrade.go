package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/bench/demo"
	"github.com/mooncake-go/mooncake/core/bench/worker"
	"github.com/mooncake-go/mooncake/core/bench/workload"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// sideBySide is how long the processes serve after each step.
const sideBySide = time.Second

// rollBoth replaces all processes by those of the program, while a client of the other program uses the pool, and then
// by those of the other program again. So a master of each program has stores and other masters of each.
func rollBoth(ctx context.Context, r *round) error {
	other, err := startOtherClient(r)
	if err != nil {
		return err
	}
	err = r.roll(ctx, r.opts.Program)
	if err == nil {
		err = r.roll(ctx, r.opts.From)
	}
	return errors.Join(err, other.end(r))
}

// roll replaces the masters one by one, the leader last, and then the stores.
func (r *round) roll(ctx context.Context, program string) error {
	r.pool.program = program
	leader, _, err := r.pool.leader(ctx)
	if err != nil {
		return errors.Join(errNoLeader, err)
	}
	order := []int{}
	for i := range r.pool.masters {
		order = append(order, (leader+1+i)%len(r.pool.masters))
	}
	for _, i := range order {
		err := r.replace(ctx, r.pool.masters[i], func() (*cluster.Proc, error) {
			err := r.pool.startMaster(i)
			return r.pool.masters[i], err
		}, func() error {
			_, err := r.pool.get(ctx, i, "/health")
			return err
		})
		if err != nil {
			return err
		}
	}
	for i := range r.pool.stores {
		err := r.replace(ctx, r.pool.stores[i], func() (*cluster.Proc, error) {
			err := r.pool.startStore(i)
			return r.pool.stores[i], err
		}, func() error { return nil })
		if err != nil {
			return err
		}
	}
	return nil
}

// replace stops a process, starts its successor, and waits until that is ready and the keys are readable. Then it repeats
// the calls that have failed meanwhile.
func (r *round) replace(ctx context.Context, old *cluster.Proc, start func() (*cluster.Proc, error), ready func() error) error {
	stop, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := old.Stop(stop); err != nil {
		return err
	}
	next, err := start()
	if err != nil {
		return err
	}
	err = cluster.Poll(next, readyTimeout, func() error { return errors.Join(ready(), r.pool.complete(ctx)) })
	if err != nil {
		return err
	}
	r.upgrade.Replaced++
	keys := r.readable(ctx, 0, r.opts.Keys)
	if r.upgrade.least = min(r.upgrade.least, keys); keys < r.opts.Keys {
		r.opts.Note(fmt.Sprintf("%d of %d keys are readable after %s was replaced by %s; its last log lines:\n%s", keys, r.opts.Keys, old.Name, r.pool.program, next.Tail()))
	}
	r.load.repeatFailed(ctx)
	pause(ctx, sideBySide)
	return context.Cause(ctx)
}

// The load of a client of the other program, which ends by itself after otherRequests.
const (
	otherRequests = 20000
	otherThink    = 20 * time.Millisecond
	otherReads    = 4       // keys that a request reads, before it puts a page
	otherFirst    = 1 << 40 // the first page that it puts
)

// otherClient is a process of the other program that reads the keys, whole, and puts pages of its own: a worker of the
// demo, which every release has.
type otherClient struct {
	proc *cluster.Proc
	out  bytes.Buffer // to be read when the process has ended
}

func startOtherClient(r *round) (*otherClient, error) {
	file := filepath.Join(r.pool.folder, "other.jsonl")
	if err := os.WriteFile(file, []byte(otherTrace(r.opts)), 0o600); err != nil {
		return nil, err
	}
	load := workload.Default()
	load.Requests = otherRequests
	text, err := json.Marshal(demo.Job{
		Worker: worker.Config{Model: r.pages.model, Seed: r.pages.seed, PageSize: r.pages.size, Window: 16, Think: otherThink},
		Load:   load, Trace: file, Workers: 1, Master: r.pool.address(), Metadata: "P2PHANDSHAKE", Checksum: true, Protocol: "tcp",
		Security: r.pool.secure.Of(security.RoleClient),
	})
	if err != nil {
		return nil, err
	}
	c := &otherClient{}
	c.proc, err = cluster.Start(cluster.Spec{
		Name: "other-client", Program: r.opts.From, Args: []string{"demo-worker"}, Env: r.opts.Environ,
		Stdin: bytes.NewReader(text), Stdout: &c.out,
	})
	return c, err
}

// otherTrace is what the client requests. What it puts takes at most a quarter of the pool.
func otherTrace(o Options) string {
	var b strings.Builder
	puts := int(o.SegmentSize / 2 / uint64(o.PageSize))
	for i := range otherRequests {
		var blocks []uint64
		for range otherReads {
			blocks = append(blocks, rand.Uint64N(uint64(o.Keys)))
		}
		if i < puts {
			blocks = append(blocks, otherFirst+uint64(i))
		}
		ids, _ := json.Marshal(blocks) //nolint:errchkjson // Numbers can be encoded.
		fmt.Fprintf(&b, "{\"timestamp\":%d,\"input_length\":%d,\"output_length\":1,\"hash_ids\":%s}\n", i, workload.TokensPerBlock*len(blocks), ids)
	}
	return b.String()
}

// end ends the client and takes what it found. A client that has ended with an error before is one.
func (c *otherClient) end(r *round) error {
	alone := false
	select {
	case <-c.proc.Done():
		alone = true
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := c.proc.Stop(ctx); err != nil {
		return err
	}
	var result *worker.Result
	for events := worker.NewDecoder(&c.out); ; {
		ev, err := events.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if ev.Error != nil && alone {
			return fmt.Errorf("a client of %s gave up: %w", r.opts.From, ev.Error.Err())
		}
		if ev.Result != nil {
			result = ev.Result
		}
	}
	if result == nil {
		return fmt.Errorf("a client of %s ended without a result; its last log lines:\n%s", r.opts.From, c.proc.Tail())
	}
	for i := range result.PagesWrong {
		detail := "no more is known"
		if i < uint64(len(result.Wrong)) {
			detail = result.Wrong[i]
		}
		r.pages.bad("a client of the other program: %s", detail)
	}
	r.upgrade.OtherVerified += result.PagesVerified
	return nil
}
