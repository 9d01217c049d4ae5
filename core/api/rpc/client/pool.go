package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/internal/masteraddr"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/router"
)

// countPause is the pause between two questions for the number of cells.
const countPause = 100 * time.Millisecond

// Pool is the master that a directory names or, in a pool that is cut into cells, the master of each of them. While the number
// of cells is not known, calls go to the master that the directory names, which passes them on. Safe for concurrent use.
type Pool struct {
	*router.Router
	name  string
	front *Client // nil where the cells were known from the start
	opts  Options
	known chan struct{} // closed when the number is known
	stop  context.CancelFunc
	tasks sync.WaitGroup

	clients []*Client // of the cells; written before known is closed
}

var _ store.Celled = (*Pool)(nil)

// DialPool is Dial for the pool behind an address. A master that is named by host:port passes calls on to the cells itself.
func DialPool(addr string, opts Options) (*Pool, error) {
	front, err := Dial(addr, opts)
	if err != nil {
		return nil, err
	}
	p := &Pool{Router: router.New(front), name: front.place.name, front: front, opts: opts, known: make(chan struct{})}
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.Background())
	if counts, ok := front.directory.(ha.Cells); ok {
		p.tasks.Go(func() { p.count(ctx, counts) })
	} else {
		close(p.known)
	}
	return p, nil
}

// DialCells returns the masters of the n cells of a pool, which a directory names.
func DialCells(d ha.Cells, cluster string, n int, opts Options) (*Pool, error) {
	opts.Cluster = cluster
	p := &Pool{Router: router.New(), name: cluster, opts: opts, known: make(chan struct{}), stop: func() {}}
	if err := p.cut(d, n); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	close(p.known)
	return p, nil
}

// count finds out how many cells there are, and has the calls go to their masters.
func (p *Pool) count(ctx context.Context, d ha.Cells) {
	log := p.opts.Directory.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	for ctx.Err() == nil {
		n, err := d.Count(ctx)
		if err == nil && n > 1 {
			err = p.cut(d, n)
		}
		if err == nil && n > 0 {
			close(p.known)
			return
		}
		if err != nil && ctx.Err() == nil {
			log.Debug("the number of cells is not known, asking again", "at", p.name, "error", err)
		}
		select {
		case <-time.After(countPause):
		case <-ctx.Done():
		}
	}
}

// cut has the calls go to the masters of n cells.
func (p *Pool) cut(d ha.Cells, n int) error {
	var masters []store.Master
	for i := range n {
		opts := p.opts
		opts.Cluster = cells.Cluster(p.opts.Cluster, i, n)
		c, err := dial(masteraddr.Address{Directory: fmt.Sprintf("%s, cell %d of %d", p.name, i, n)}, d.Cell(opts.Cluster), opts)
		if err != nil {
			return err
		}
		p.clients = append(p.clients, c)
		masters = append(masters, c)
	}
	p.Use(masters...)
	return nil
}

// Masters implements store.Celled.
func (p *Pool) Masters(ctx context.Context) ([]store.Master, error) {
	select {
	case <-p.known:
		return p.Router.Masters(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends the connections; calls in flight fail. Repeatable.
func (p *Pool) Close() error {
	p.stop()
	p.tasks.Wait()
	p.Router.Close()
	var failed error
	for _, c := range p.clients {
		failed = errors.Join(failed, c.Close())
	}
	if p.front != nil {
		failed = errors.Join(failed, p.front.Close())
	}
	return failed
}
