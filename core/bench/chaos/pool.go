package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// readyTimeout bounds how long one process may take to serve or to end.
const readyTimeout = 30 * time.Second

// pool is a master and stores with the flags that any deployment has.
type pool struct {
	opts       Options
	rpc, admin int // ports
	master     *cluster.Proc
	stores     [stores]*cluster.Proc
}

// startPool starts a pool and waits until all memory is mounted. The caller closes it.
func startPool(ctx context.Context, opts Options) (*pool, error) {
	ports, err := cluster.FreePorts(2)
	if err != nil {
		return nil, err
	}
	p := &pool{opts: opts, rpc: ports[0], admin: ports[1]}
	err = p.startMaster(ctx)
	for i := 0; i < stores && err == nil; i++ {
		err = p.startStore(i)
	}
	if err == nil {
		err = p.waitMounted(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *pool) address() string { return "127.0.0.1:" + strconv.Itoa(p.rpc) }

func (p *pool) start(name string, args ...string) (*cluster.Proc, error) {
	return cluster.Start(cluster.Spec{Name: name, Program: p.opts.Program, Args: args, Env: p.opts.Environ})
}

func (p *pool) startMaster(ctx context.Context) error {
	proc, err := p.start("master", "master", "--rpc_port", strconv.Itoa(p.rpc), "--metrics_port", strconv.Itoa(p.admin),
		"--client_ttl", p.opts.ClientTTL.String())
	if err != nil {
		return err
	}
	p.master = proc
	return cluster.Poll(proc, readyTimeout, func() error {
		_, err := p.get(ctx, "/health")
		return err
	})
}

func (p *pool) startStore(i int) error {
	proc, err := p.start("store-"+strconv.Itoa(i+1), "store", "--master_server_address", p.address(),
		"--local_hostname", "127.0.0.1", "--global_segment_size", "256MB")
	if err == nil {
		p.stores[i] = proc
	}
	return err
}

// waitMounted waits until the master knows the memory of every store.
func (p *pool) waitMounted(ctx context.Context) error {
	return cluster.Poll(p.master, readyTimeout, func() error {
		text, err := p.get(ctx, "/get_all_segments")
		if have := len(strings.Fields(text)); err == nil && have < stores {
			err = fmt.Errorf("%d of %d stores are mounted", have, stores)
		}
		return err
	})
}

// get asks the admin port.
func (p *pool) get(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(p.admin)+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s", path, resp.Status)
	}
	return string(body), err
}

// close stops everything, stores first.
func (p *pool) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	var all sync.WaitGroup
	failed := make([]error, stores+1)
	for i, s := range p.stores {
		if s != nil {
			all.Go(func() { failed[i] = s.Stop(ctx) })
		}
	}
	all.Wait()
	if p.master != nil {
		failed[stores] = p.master.Stop(ctx)
	}
	return errors.Join(failed...)
}
