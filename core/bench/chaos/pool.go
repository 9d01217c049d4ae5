package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

const (
	stores = 2
	// readyTimeout bounds how long a process may take to serve, stopTimeout how long to end.
	readyTimeout = 30 * time.Second
	stopTimeout  = time.Minute
)

// pool is a master and two stores, each a process of its own.
type pool struct {
	opts   Options
	link   *link // the first store is behind it, nil for none
	host   string
	ports  []int
	folder string        // of the keeper's socket, empty for none
	keeper *cluster.Proc // nil for none
	master *cluster.Proc
	stores [stores]*cluster.Proc
}

// newPool starts the processes and waits until all memory is mounted.
func newPool(ctx context.Context, opts Options, l *link) (*pool, error) {
	ports, err := cluster.FreePorts(2)
	if err != nil {
		return nil, err
	}
	p := &pool{opts: opts, link: l, host: "127.0.0.1", ports: ports}
	if l != nil {
		p.host = l.master
	}
	err = p.startKeeper()
	if err == nil {
		err = p.startAll()
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	err = cluster.Poll(p.master, readyTimeout, func() error {
		text, err := p.segments(ctx)
		if have := len(strings.Fields(text)); err == nil && have < stores {
			err = fmt.Errorf("%d of %d stores are mounted", have, stores)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// address is where the master serves.
func (p *pool) address() string { return p.host + ":" + strconv.Itoa(p.ports[0]) }

func (p *pool) startAll() error {
	err := p.startMaster()
	for i := range p.stores {
		if err == nil {
			err = p.startStore(i)
		}
	}
	return err
}

// startKeeper starts the keeper. It outlives every fault.
func (p *pool) startKeeper() (err error) {
	if !p.opts.Keep {
		return nil
	}
	if p.folder, err = os.MkdirTemp("", "mooncake-chaos-"); err != nil {
		return err
	}
	p.keeper, err = cluster.Start(cluster.Spec{Name: "keeper", Program: p.opts.Program, Args: []string{"keep", "--socket", p.keep()}, Env: p.opts.Environ})
	return err
}

// keep is where the stores keep their memory.
func (p *pool) keep() string {
	if p.folder == "" {
		return "off"
	}
	return filepath.Join(p.folder, "keep.sock")
}

// startMaster starts the master and does not wait for it.
func (p *pool) startMaster() (err error) {
	args := []string{"master", "--rpc_address", p.host, "--rpc_port", strconv.Itoa(p.ports[0]),
		"--metrics_host", p.host, "--metrics_port", strconv.Itoa(p.ports[1])}
	if p.opts.ClientTTL > 0 {
		args = append(args, "--client_ttl", p.opts.ClientTTL.String())
	}
	p.master, err = cluster.Start(cluster.Spec{Name: "master", Program: p.opts.Program, Args: args, Env: p.opts.Environ})
	return err
}

// startStore starts a store and does not wait for it.
func (p *pool) startStore(i int) (err error) {
	spec := cluster.Spec{Name: "store-" + strconv.Itoa(i+1), Program: p.opts.Program, Env: p.opts.Environ}
	host := "127.0.0.1"
	if p.link != nil && i == 0 {
		host = p.link.store
		spec.Program, spec.Args = p.link.inside(spec.Program)
	}
	spec.Args = append(spec.Args, "store", "--master_server_address", p.address(), "--local_hostname", host,
		"--global_segment_size", strconv.FormatUint(p.opts.SegmentSize, 10), "--keep", p.keep(), "--shared_memory", "off", "--admin_socket", "off")
	p.stores[i], err = cluster.Start(spec)
	return err
}

// segments asks the master's admin port for the mounted segments.
func (p *pool) segments(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	url := "http://" + p.host + ":" + strconv.Itoa(p.ports[1]) + "/get_all_segments"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	req.Close = true // The master that answers is about to be killed.
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return string(body), err
}

// freeze stops processes for the pause of the options.
func (p *pool) freeze(ctx context.Context, procs ...*cluster.Proc) error {
	var err error
	for _, proc := range procs {
		err = errors.Join(err, proc.Signal(syscall.SIGSTOP))
	}
	pause(ctx, p.opts.Pause)
	for _, proc := range procs {
		err = errors.Join(err, proc.Signal(syscall.SIGCONT))
	}
	return err
}

// close ends all processes: stores first, so that they can say goodbye to the master.
func (p *pool) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var errList [stores + 1]error
	var work sync.WaitGroup
	for i, s := range p.stores {
		if s != nil {
			work.Go(func() { errList[i] = s.Stop(ctx) })
		}
	}
	work.Wait()
	if p.master != nil {
		errList[stores] = p.master.Stop(ctx)
	}
	err := errors.Join(errList[:]...)
	if p.keeper != nil {
		err = errors.Join(err, p.keeper.Stop(ctx))
	}
	if p.folder != "" {
		err = errors.Join(err, os.RemoveAll(p.folder))
	}
	return err
}
