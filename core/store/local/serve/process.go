package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/local/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// process is one attached process.
type process struct {
	s     *Server
	line  frame.Conn
	peer  frame.Peer
	token frame.Token
	log   *slog.Logger
	// layers are the sessions of the process.
	layers store.Layers

	// ctx ends when the attachment does. Those of calls end with their connection.
	ctx    context.Context
	cancel context.CancelFunc
	calls  sync.WaitGroup

	mu      sync.Mutex
	gone    bool
	conn    net.Conn // for calls
	regions map[uint64]*region
	bytes   uint64 // of the regions
	leases  map[uint64]*memory.Buffer
	lent    int // bytes, rounded as the pool does
	next    uint64
	running map[uint64]context.CancelFunc // calls that can be cancelled
	count   int
}

func newProcess(s *Server, c frame.Conn, peer frame.Peer) *process {
	p := &process{
		s: s, line: c, peer: peer, token: frame.NewToken(), log: s.deps.Log.With("process", peer.PID, "user", peer.UID),
		regions: map[uint64]*region{}, leases: map[uint64]*memory.Buffer{}, running: map[uint64]context.CancelFunc{},
	}
	p.layers = s.deps.Client.NewLayers()
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// takeCalls binds the process's one connection for calls to it.
func (p *process) takeCalls(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone || p.conn != nil {
		return false
	}
	p.conn = c
	return true
}

// live serves the lifeline until it ends, and then frees everything that the process had.
func (p *process) live() {
	var err error
	for err == nil {
		err = p.step()
	}
	p.hangUp()
	p.log.Info("a process is gone", "reason", lost(err))
	p.settle()
	p.s.forget(p)
	_ = p.line.Close() // This tells the other side that its memory is no longer used.
}

// hangUp ends the calls of the process and refuses new ones. Repeatable.
func (p *process) hangUp() {
	p.cancel()
	p.mu.Lock()
	p.gone = true
	conn := p.conn
	p.mu.Unlock()
	_ = p.line.CloseRead() // Ends the wait for the next step.
	if conn != nil {
		_ = conn.Close() // Its calls are cancelled anyhow.
	}
}

// step answers one message of the lifeline. Only the connection's failures are its errors.
func (p *process) step() error {
	var req localv1.AttachRequest
	fd, err := p.line.Recv(time.Now().Add(p.s.cfg.PingTimeout), &req)
	if err != nil {
		closeFD(fd)
		return err
	}
	var answer error
	switch r := req.GetStep().(type) {
	case *localv1.AttachRequest_Add:
		if answer = p.add(fd, r.Add); answer == nil {
			fd = -1 // The region has it.
		}
	case *localv1.AttachRequest_Drop:
		answer = p.drop(r.Drop.GetRegion())
	case *localv1.AttachRequest_Beat:
	default:
		err = errors.New("the message is no step of an attachment")
	}
	closeFD(fd)
	if err != nil {
		return err
	}
	return p.line.Send(time.Now().Add(p.s.cfg.PingTimeout), &localv1.AttachResponse{Error: wire.ToProto(answer)}, -1)
}

// settle waits until no call touches the process's memory, and frees everything.
func (p *process) settle() {
	p.calls.Wait()
	p.closeLayers()
	p.mu.Lock()
	for id, b := range p.leases {
		b.Release()
		delete(p.leases, id)
	}
	p.lent = 0
	regions := p.regions
	p.regions = map[uint64]*region{}
	p.mu.Unlock()
	for _, r := range regions {
		if err := r.free(p.s); err != nil {
			p.log.Error("memory of a process stays mapped", "bytes", len(r.mem), "error", err)
		}
	}
}

// closeLayers ends the sessions of a process that has exited, and revokes its puts.
func (p *process) closeLayers() {
	ctx, cancel := context.WithTimeout(context.Background(), p.s.cfg.CallTimeout)
	defer cancel()
	if err := p.layers.Close(ctx); err != nil {
		p.log.Warn("puts of a process could not be revoked, the master releases them by its timeout", "error", err)
	}
}

// enter notes a call in flight. Its context ends also with the time that the caller gave,
// and when the call is cancelled by its id. done ends the call.
func (p *process) enter(ctx context.Context, call *localv1.Call) (_ context.Context, done func(), err error) {
	limit := p.s.cfg.CallTimeout
	if ns := call.GetTimeoutNs(); ns > 0 && ns < uint64(limit) {
		limit = time.Duration(ns)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id := call.GetId()
	switch {
	case p.gone:
		return nil, nil, errs.New(errs.RPCFail, "local service", "the process is not attached any more")
	case p.count >= p.s.cfg.MaxCalls:
		return nil, nil, errs.New(errs.UnavailableInCurrentStatus, "local service", "%d calls of this process are in flight, the bound", p.count)
	case id != 0 && p.running[id] != nil:
		return nil, nil, errs.New(errs.InvalidParams, "local service", "a call %d is in flight already", id)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	p.calls.Add(1)
	p.count++
	if id != 0 {
		p.running[id] = cancel
	}
	p.s.inFlight.Add(1)
	return ctx, func() {
		cancel()
		p.mu.Lock()
		p.count--
		if id != 0 {
			delete(p.running, id)
		}
		p.mu.Unlock()
		p.s.inFlight.Add(-1)
		p.s.served.Add(1)
		p.calls.Done()
	}, nil
}

// stop cancels a call by its id.
func (p *process) stop(id uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	cancel := p.running[id]
	if cancel != nil {
		cancel()
	}
	return cancel != nil
}

func closeFD(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd) // An error would not matter.
	}
}
