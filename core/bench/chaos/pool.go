package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/sdk/security"
)

const (
	stores = 2
	// readyTimeout bounds how long a process may take to serve, stopTimeout how long to end.
	readyTimeout = 75 * time.Second
	stopTimeout  = time.Minute
)

// pool is a master, or several with an etcd that elects one of them, and two stores, each a process of its own.
type pool struct {
	opts    Options
	link    *link // the first store is behind it, nil for none
	host    string
	folder  string        // of the keeper's socket, of etcd and of the members, empty for none
	keeper  *cluster.Proc // nil for none
	files   string        // where the stores have their memory, empty for nowhere
	secure  *cluster.Certificates
	admin   *http.Client
	etcd    *etcd   // nil for one master, and where the masters run etcd
	members members // of the masters, nil where they run none
	masters []*cluster.Proc
	ports   []int // of the masters: for each the RPC port and the admin port
	stores  [stores]*cluster.Proc
	program string // of the processes that are started next
}

// newPool starts the processes and waits until all memory is mounted.
func newPool(ctx context.Context, opts Options, l *link, on layout) (*pool, error) {
	p := &pool{opts: opts, link: l, host: "127.0.0.1", masters: make([]*cluster.Proc, max(on.masters, 1)), program: opts.Program}
	if on.old {
		p.program = opts.From
	}
	if l != nil {
		p.host = l.master
	}
	if err := p.start(ctx, on.embedded); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *pool) start(ctx context.Context, embedded bool) (err error) {
	if p.ports, err = cluster.FreePorts(2 * len(p.masters)); err != nil {
		return err
	}
	if p.folder, err = os.MkdirTemp("", "mooncake-chaos-"); err != nil {
		return err
	}
	if cluster.Secure(p.opts.Security) {
		if p.secure, err = cluster.MakeCertificates(p.folder, p.opts.Security); err != nil {
			return err
		}
	}
	p.admin = p.secure.Admin()
	switch {
	case embedded:
		if p.members, err = newMembers(p.opts, p.folder, len(p.masters)); err != nil {
			return err
		}
	case len(p.masters) > 1:
		if p.etcd, err = newEtcd(p.opts, p.folder, p.secure); err != nil {
			return err
		}
	}
	if err := p.startKeeper(); err != nil {
		return err
	}
	if err := p.startAll(); err != nil {
		return err
	}
	err = cluster.Poll(p.stores[0], readyTimeout, func() error { return p.complete(ctx) })
	if err != nil {
		for i, s := range p.stores[1:] { // Poll has shown the first.
			err = fmt.Errorf("%w\nlast log lines of store-%d:\n%s", err, i+2, s.Tail())
		}
	}
	return err
}

// complete returns nil when a master serves and knows all stores.
func (p *pool) complete(ctx context.Context) error {
	_, text, err := p.leader(ctx)
	want := stores * p.cells()
	if have := len(strings.Fields(text)); err == nil && have < want {
		err = fmt.Errorf("%d of %d segments are mounted", have, want)
	}
	return err
}

// cells is into how many cells the masters cut the pool: only those that an etcd elects do.
func (p *pool) cells() int {
	if len(p.masters) == 1 {
		return 1
	}
	return max(p.opts.Cells, 1)
}

// address is where the master serves, or where the leader is found.
func (p *pool) address() string {
	switch {
	case p.members != nil:
		return p.members.address()
	case p.etcd != nil:
		return "etcd://" + p.etcd.address
	}
	return p.host + ":" + strconv.Itoa(p.ports[0])
}

func (p *pool) startAll() error {
	err := p.startMasters()
	for i := range p.stores {
		if err == nil {
			err = p.startStore(i)
		}
	}
	return err
}

// startKeeper starts the keeper, or makes the directory in its place. They outlive every fault.
func (p *pool) startKeeper() (err error) {
	if !p.opts.Keep {
		return nil
	}
	if p.opts.KeepDir != "" {
		p.files, err = os.MkdirTemp(p.opts.KeepDir, "mooncake-chaos-")
		return err
	}
	p.keeper, err = cluster.Start(cluster.Spec{Name: "keeper", Program: p.program, Args: []string{"keep", "--socket", p.keep()}, Env: p.opts.Environ})
	return err
}

// keep is where the stores keep their memory.
func (p *pool) keep() string {
	switch {
	case !p.opts.Keep:
		return "off"
	case p.files != "":
		return p.files
	}
	return filepath.Join(p.folder, "keep.sock")
}

func (p *pool) startMasters() (err error) {
	for i := range p.masters {
		if err == nil {
			err = p.startMaster(i)
		}
	}
	return err
}

// startMaster starts a master and does not wait for it.
func (p *pool) startMaster(i int) (err error) {
	args := []string{"master", "--rpc_address", p.host, "--rpc_port", strconv.Itoa(p.ports[2*i]),
		"--metrics_host", p.host, "--metrics_port", strconv.Itoa(p.ports[2*i+1])}
	if p.opts.ClientTTL > 0 {
		args = append(args, "--client_ttl", p.opts.ClientTTL.String())
	}
	if p.etcd != nil {
		args = append(args, "--enable_ha", "--etcd_endpoints", p.etcd.address)
	}
	if p.members != nil {
		args = append(args, p.members.args(i)...)
	}
	if n := p.cells(); n > 1 {
		args = append(args, "--cells", strconv.Itoa(n))
	}
	p.masters[i], err = cluster.Start(cluster.Spec{Name: "master-" + strconv.Itoa(i+1), Program: p.program, Args: args, Env: p.secure.Environ(p.opts.Environ, security.RoleMaster)})
	return err
}

// startStore starts a store and does not wait for it.
func (p *pool) startStore(i int) (err error) {
	spec := cluster.Spec{Name: "store-" + strconv.Itoa(i+1), Program: p.program, Env: p.secure.Environ(p.opts.Environ, security.RoleStore)}
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

// leader asks the admin ports of the masters for the mounted segments: only the one that serves answers.
func (p *pool) leader(ctx context.Context) (master int, segments string, err error) {
	for i := range p.masters {
		text, e := p.segments(ctx, i)
		if e == nil {
			return i, text, nil
		}
		err = errors.Join(err, e)
	}
	return 0, "", err
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

// freezeMachine stops a master and its etcd member for the pause of the options.
func (p *pool) freezeMachine(ctx context.Context, i int) error {
	pid, err := cluster.Descendant(p.masters[i].PID(), memberProgram)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop the etcd member: %w", err)
	}
	err = p.freeze(ctx, p.masters[i])
	return errors.Join(err, syscall.Kill(pid, syscall.SIGCONT))
}

// close ends all processes: stores first, so that they can say goodbye to the master.
func (p *pool) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var errList [stores]error
	var work sync.WaitGroup
	for i, s := range p.stores {
		if s != nil {
			work.Go(func() { errList[i] = s.Stop(ctx) })
		}
	}
	work.Wait()
	err := errors.Join(errList[:]...)
	for _, m := range p.masters {
		if m != nil {
			err = errors.Join(err, m.Stop(ctx))
		}
	}
	if p.etcd != nil {
		p.etcd.proc.Kill()
	}
	if p.keeper != nil {
		err = errors.Join(err, p.keeper.Stop(ctx))
	}
	for _, folder := range []string{p.files, p.folder} {
		if folder != "" {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}
	return err
}
