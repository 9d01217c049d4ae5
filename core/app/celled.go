package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rpcclient "github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/campaign"
	"github.com/mooncake-go/mooncake/core/ha/embedded"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/ports"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// rankPause is how long a master leaves a cell to each master that should rather lead it.
	rankPause = 300 * time.Millisecond
	// agreePause is the pause between two attempts to agree on the number of cells while etcd does not answer.
	agreePause = 200 * time.Millisecond
)

// celled is a master of a pool of several cells: each cell has an elected master of its own here, with a port that is open while
// the cell is led here. The front, whose port is rpc_port, passes the calls of clients on that do not know the cells; it is led
// under the name of the cluster, as a master without cells.
type celled struct {
	cfg   config.Config
	log   *slog.Logger
	fail  ports.Failer
	doors *doors.Doors
	etcd  *embedded.Server // nil where etcd runs elsewhere
	base  ha.Cells
	cells []*elected
	held  []*ports.Held
	pool  *rpcclient.Pool // the masters of all cells
	front *campaign.Campaign

	members atomic.Pointer[[]ha.Member] // the masters that run, as far as it is known
	drains  drains
}

func provideCelled(cfg config.Config, d *doors.Doors, catalog *pluginhost.Catalog, store *memory.Store, etcd *embedded.Server, log *slog.Logger, fail ports.Failer) (*celled, error) {
	c := &celled{cfg: cfg, doors: d, log: log, fail: fail, etcd: etcd}
	backend, err := backendOf(cfg, d, etcd, log)
	if err != nil {
		return nil, err
	}
	var ok bool
	if c.base, ok = backend.(ha.Cells); !ok {
		backend.Close()
		return nil, errs.WithHint(errs.New(errs.UnavailableInCurrentMode, "master.cells", "%s keeps no cells", cfg.Master.HABackendType),
			"use --ha_backend_type etcd or embedded, or --cells 1")
	}
	n := cfg.Master.Cells
	for i := range n {
		e := &elected{
			doors: d, catalog: catalog, store: store, log: log.With("cell", i), fail: fail,
			backend: c.base.Cell(cells.Cluster(cfg.Master.ClusterID, i, n)),
			delay:   func(after ha.View) time.Duration { return c.delay(i, after) },
			follows: func(leader ha.View) bool { return c.rank(i, leader) == 0 },
		}
		if e.cfg, err = c.configOf(i); err != nil {
			return nil, err
		}
		c.cells = append(c.cells, e)
	}
	return c, nil
}

// configOf is the configuration of one cell.
func (c *celled) configOf(i int) (config.Config, error) {
	cfg := c.cfg
	m, n := &cfg.Master, c.cfg.Master.Cells
	m.ClusterID = cells.Cluster(m.ClusterID, i, n)
	if m.HAFollowPort != 0 {
		m.HAFollowPort += i
	}
	m.RPCMemoryBudget /= config.Size(n)
	m.WhyHistory /= n
	m.UpstreamClients = false // They call the front.
	m.EnableMetricReporting = m.EnableMetricReporting && i == 0
	if m.EnableKVEvents {
		at, err := portAfter(m.KVEventsBindEndpoint, i)
		if err != nil {
			return cfg, fmt.Errorf("master.kv_events_bind_endpoint: %w", err)
		}
		m.KVEventsBindEndpoint = at
	}
	return cfg, nil
}

// portAfter is the i-th endpoint after one: the next port, or a path with a number.
func portAfter(endpoint string, i int) (string, error) {
	if i == 0 {
		return endpoint, nil
	}
	rest, ok := strings.CutPrefix(endpoint, "tcp://")
	if !ok {
		return endpoint + "." + strconv.Itoa(i), nil
	}
	at := strings.LastIndexByte(rest, ':')
	port, err := strconv.Atoi(rest[at+1:])
	if err != nil || at < 0 {
		return "", fmt.Errorf("%q has no port", endpoint)
	}
	return "tcp://" + rest[:at+1] + strconv.Itoa(port+i), nil
}

// delay is how long this master leaves a cell to others, after a leader.
func (c *celled) delay(cell int, after ha.View) time.Duration {
	return time.Duration(c.rank(cell, after)) * rankPause
}

// rank is how many of the masters that run should rather lead a cell than this one, without its leader. The first one of them
// follows the leader; the others need no memory for it.
func (c *celled) rank(cell int, leader ha.View) int {
	members := c.members.Load()
	if members == nil {
		return 0
	}
	last := ""
	var names []string
	for _, m := range *members {
		names = append(names, m.Name)
		if cell < len(m.Cells) && m.Cells[cell].Address == leader.Address {
			last = m.Name
		}
	}
	order := cells.Order(names, cell, len(c.cells))
	if i := slices.Index(order, last); i >= 0 { // It comes after the others.
		order = append(slices.Delete(order, i, i+1), last)
	}
	return max(slices.Index(order, c.name()), 0)
}

// name is what this master is called among the masters.
func (c *celled) name() string { return addressOf(c.cfg.Master) }

// acquire reserves the ports of the cells, and makes what needs to know them.
func (c *celled) acquire(ctx context.Context) error {
	m := c.cfg.Master
	if err := tryPort(ctx, m); err != nil {
		return err
	}
	for i, e := range c.cells {
		port := 0
		if m.CellsPort != 0 {
			port = m.CellsPort + i
		}
		h, err := ports.Hold(ctx, m.RPCAddress, port)
		if err != nil {
			return errs.WithHint(fmt.Errorf("master: cell %d: %w", i, err), "choose other ports with --cells_port; 0 takes free ones")
		}
		c.held = append(c.held, h)
		e.cfg.Master.RPCPort = h.Port
		if err := e.init(); err != nil {
			return err
		}
	}
	var err error
	c.pool, err = rpcclient.DialCells(c.base, m.ClusterID, len(c.cells), rpcclient.Options{Doors: c.doors})
	return err
}

func (c *celled) release(ctx context.Context) error {
	var failed error
	if c.pool != nil {
		failed = c.pool.Close()
	}
	c.base.Close()
	for _, e := range c.cells {
		if g := e.current.Load(); g != nil {
			failed = errors.Join(failed, g.stop(ctx))
		}
	}
	for _, h := range c.held {
		h.Release()
	}
	return failed
}

// run campaigns for all cells and the front until ctx ends.
func (c *celled) run(ctx context.Context, admin net.Addr) {
	if err := agree(ctx, c.base, len(c.cells), c.log); err != nil {
		c.fail(err)
		return
	}
	// The cells are handed over before the front is, and the other masters know this one until then.
	listed, unlist := context.WithCancel(context.WithoutCancel(ctx))
	defer unlist()
	var listing sync.WaitGroup
	listing.Go(func() {
		c.base.Join(listed, func() ha.Member { return c.self(admin) }, func(all []ha.Member) { c.members.Store(&all) })
	})
	defer listing.Wait()
	defer unlist()
	defer yieldWhileLeading(ctx, c.etcd, c.front, c.log)()
	var work sync.WaitGroup
	campaigns := []*campaign.Campaign{c.front}
	for _, e := range c.cells {
		campaigns = append(campaigns, e.campaign)
	}
	for _, one := range campaigns {
		work.Go(func() {
			if err := one.Run(ctx); err != nil {
				c.fail(err)
			}
		})
	}
	work.Go(func() { c.balance(ctx) })
	work.Wait()
}

// self is this master as the others see it.
func (c *celled) self(admin net.Addr) ha.Member {
	m := ha.Member{Name: c.name()}
	if a, ok := admin.(*net.TCPAddr); ok {
		host := ports.Concrete(c.cfg.Master.MetricsHost)
		if ports.IsWildcard(c.cfg.Master.MetricsHost) {
			host = ports.Concrete(c.cfg.Master.RPCAddress)
		}
		m.Admin = net.JoinHostPort(host, strconv.Itoa(a.Port))
	}
	for _, e := range c.cells {
		one := ha.MemberCell{Address: e.address()}
		if s := e.campaign.Status(); s.State == campaign.Standby && s.View.Led() {
			one.Follows, one.Segments = s.View.Version, e.current.Load().service.Followed()
		}
		m.Cells = append(m.Cells, one)
	}
	return m
}
