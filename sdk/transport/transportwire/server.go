package transportwire

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/memwire"
	transportv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/transport/v1"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/grant"
	"github.com/mooncake-go/mooncake/sdk/transport/transportwire/internal/datapath"
	"github.com/mooncake-go/mooncake/sdk/wire"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// server is the plugin's side of a Transport.
type server struct {
	transportv1.UnimplementedTransportServiceServer

	op      string
	object  func() (transport.Transport, error)
	any     bool // operations may use local memory that is not registered
	data    *shm.Conn
	inbox   *memwire.Inbox
	logger  *slog.Logger
	areas   memwire.Areas
	stats   datapath.PumpStats
	changes *changes
	sharing chan struct{} // holds a token while a Share runs

	mu      sync.Mutex
	joined  bool
	host    int
	regions map[transport.RegionID]*heldRegion
	pumps   map[uint64]*datapath.Pump
	next    uint64
	running sync.WaitGroup
	cancel  context.CancelFunc
	ctx     context.Context //nolint:containedctx // For goroutines that run until close.
}

// heldRegion is what the server holds for a registered region.
type heldRegion struct {
	handle uint64
	fd     int         // the transport may pass it on until Deregister
	book   *grant.Book // of the grants that peers need, nil for none
}

func newServer(o wire.Served[transport.Transport]) *server {
	s := &server{
		op: o.Manifest.String(), object: o.Object, any: o.Manifest.Has(transport.CapLocalAny), data: o.Data, inbox: memwire.NewInbox(), logger: o.Logger,
		changes: newChanges(), sharing: make(chan struct{}, 1), regions: map[transport.RegionID]*heldRegion{}, pumps: map[uint64]*datapath.Pump{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// close ends the goroutines of the server. The transport was stopped before, or its process ends.
func (s *server) close() {
	s.cancel()
	s.running.Wait()
	s.inbox.Close()
}

// stopped frees paths and regions once the transport has been stopped.
func (s *server) stopped(ctx context.Context) error {
	s.mu.Lock()
	pumps, regions := s.pumps, s.regions
	s.pumps, s.regions = map[uint64]*datapath.Pump{}, map[transport.RegionID]*heldRegion{}
	s.mu.Unlock()
	var err error
	for _, p := range pumps {
		err = errors.Join(err, p.Close(ctx))
	}
	err = errors.Join(err, s.areas.UnmapAll())
	for _, r := range regions {
		_ = unix.Close(r.fd)
	}
	return err
}

// Join implements TransportService.
func (s *server) Join(_ context.Context, m *transportv1.JoinRequest) (*transportv1.JoinResponse, error) {
	op := s.op + ": join"
	tr, err := s.object()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.data == nil:
		return nil, wire.ToStatus(errs.New(errs.NotSupported, op, "the host gave no socket for descriptors (%s)", wire.DataEnv))
	case s.joined:
		return nil, wire.ToStatus(errs.New(errs.UnavailableInCurrentStatus, op, "join comes once"))
	}
	s.joined = true
	r := &transportv1.JoinResponse{Endpoint: encodeEndpoint(tr.Endpoint())}
	if p := m.GetProbe(); p != nil && p.GetNonceBytes() <= wire.MaxText {
		s.host = int(p.GetPid())
		nonce := make([]byte, p.GetNonceBytes())
		err := datapath.ReadHost(s.host, nonce, p.GetNonceAddr())
		if err == nil {
			err = datapath.WriteHost(s.host, nonce, p.GetAnswerAddr())
		}
		if err == nil {
			r.Nonce = nonce
		} else {
			s.logger.Debug("this process may not copy from and to the host's memory", "error", err)
		}
	}
	s.running.Go(func() { s.inbox.Receive(s.ctx, s.data, s.logger) })
	if c, ok := transport.As[transport.Changing](tr); ok {
		s.running.Go(func() { s.changes.follow(s.ctx, c.Changed()) })
	}
	return r, nil
}

// Share implements TransportService. The host calls it again if it got no answer. Then Share
// replaces the earlier stage, which no operation can have used.
func (s *server) Share(ctx context.Context, m *transportv1.ShareRequest) (*transportv1.ShareResponse, error) {
	op := s.op + ": share"
	tr, fd, err := s.claim(ctx, op, m.GetToken())
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd) //nolint:errcheck // Only read from.
	select {
	case s.sharing <- struct{}{}:
		defer func() { <-s.sharing }()
	case <-ctx.Done():
		return nil, wire.ToStatus(errs.Wrap(errs.RPCTimeout, op, ctx.Err()))
	}
	if err := s.unshare(ctx, tr); err != nil {
		return nil, wire.ToStatus(errs.Wrap(errs.CodeOf(err), op, err))
	}
	b, _, err := s.areas.Map(datapath.StageHandle, fd, 0, m.GetBytes(), 0)
	if err != nil {
		return nil, wire.ToStatus(errs.Wrap(errs.InvalidParams, op, err))
	}
	if s.any {
		return &transportv1.ShareResponse{}, nil
	}
	keep, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, wire.ToStatus(errs.WithClass(errs.ClassLocalDevice, op, err))
	}
	if _, err := tr.Register(ctx, transport.Region{ID: stageID, Mem: b, FD: keep, Location: "*", Access: transport.AccessLocal}); err != nil {
		_ = unix.Close(keep)
		return nil, wire.ToStatus(errs.Wrap(errs.CodeOf(err), op, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.regions[stageID] = &heldRegion{handle: datapath.StageHandle, fd: keep}
	return &transportv1.ShareResponse{}, nil
}

// stageID is the region ID of the stage, for a transport that needs it registered.
const stageID = transport.RegionID(datapath.StageHandle)

// unshare frees the stage of an earlier Share, if any.
func (s *server) unshare(ctx context.Context, tr transport.Transport) error {
	s.mu.Lock()
	_, registered := s.regions[stageID]
	s.mu.Unlock()
	if registered {
		if err := tr.Deregister(ctx, stageID); err != nil {
			return err
		}
		s.drop(stageID)
	}
	s.areas.Unmap(datapath.StageHandle)
	return nil
}

// claim waits for the one descriptor of a token.
func (s *server) claim(ctx context.Context, op string, token uint64) (transport.Transport, int, error) {
	tr, err := s.object()
	if err != nil {
		return nil, -1, err
	}
	fds, err := s.inbox.Take(ctx, token)
	if err == nil && len(fds) != 1 {
		memwire.CloseFDs(fds)
		err = errs.New(errs.InvalidParams, "", "%d descriptors, want 1", len(fds))
	}
	if err != nil {
		return nil, -1, wire.ToStatus(errs.Wrap(errs.CodeOf(err), op, err))
	}
	return tr, fds[0], nil
}

// Register implements TransportService.
func (s *server) Register(ctx context.Context, m *transportv1.RegisterRequest) (*transportv1.RegisterResponse, error) {
	op := s.op + ": register"
	tr, fd, err := s.claim(ctx, op, m.GetToken())
	if err != nil {
		return nil, err
	}
	var book *grant.Book
	if m.GetGrants() != nil {
		book = grant.NewBook(machine)
		if err := load(book, m.GetGrants()); err != nil {
			_ = unix.Close(fd)
			return nil, wire.ToStatus(errs.Wrap(errs.CodeOf(err), op, err))
		}
	}
	id := transport.RegionID(m.GetRegion())
	s.mu.Lock()
	_, used := s.regions[id]
	if !used {
		s.regions[id] = &heldRegion{handle: m.GetToken(), fd: fd, book: book} // Reserves the ID.
	}
	s.mu.Unlock()
	if used {
		_ = unix.Close(fd)
		return nil, wire.ToStatus(errs.New(errs.InvalidParams, op, "region ID %d is in use", id))
	}
	b, elsewhere, err := s.areas.Map(m.GetToken(), fd, m.GetOffset(), m.GetBytes(), m.GetAddr())
	if err != nil {
		s.drop(id)
		return nil, wire.ToStatus(errs.Wrap(errs.InvalidParams, op, err))
	}
	in := transport.Region{
		ID: id, Mem: b, FD: fd, FDOffset: m.GetOffset(), Location: m.GetLocation(), Access: transport.Access(m.GetAccess()),
	}
	if book != nil {
		in.Grants = book
	}
	key, err := tr.Register(ctx, in)
	if err != nil {
		s.drop(id)
		return nil, wire.ToStatus(errs.Wrap(errs.CodeOf(err), op, err))
	}
	return &transportv1.RegisterResponse{Key: key, Elsewhere: elsewhere}, nil
}

// Allow implements TransportService. A region that went meanwhile is no error.
func (s *server) Allow(_ context.Context, m *transportv1.AllowRequest) (*transportv1.AllowResponse, error) {
	s.mu.Lock()
	r := s.regions[transport.RegionID(m.GetRegion())]
	s.mu.Unlock()
	if r == nil || r.book == nil {
		return &transportv1.AllowResponse{}, nil
	}
	if err := load(r.book, m.GetGrants()); err != nil {
		return nil, wire.ToStatus(errs.Wrap(errs.CodeOf(err), s.op+": allow", err))
	}
	return &transportv1.AllowResponse{}, nil
}

// drop frees what the server holds for a region that the transport does not have.
func (s *server) drop(id transport.RegionID) {
	s.mu.Lock()
	r := s.regions[id]
	delete(s.regions, id)
	s.mu.Unlock()
	if r != nil {
		s.areas.Unmap(r.handle)
		_ = unix.Close(r.fd)
	}
}

// Deregister implements TransportService. After an error the memory stays mapped, and the host may
// repeat the call. An unknown region is no error, because an earlier answer may have been lost.
func (s *server) Deregister(ctx context.Context, m *transportv1.DeregisterRequest) (*transportv1.DeregisterResponse, error) {
	tr, err := s.object()
	if err != nil {
		return nil, err
	}
	id := transport.RegionID(m.GetRegion())
	s.mu.Lock()
	_, known := s.regions[id]
	s.mu.Unlock()
	if !known {
		return &transportv1.DeregisterResponse{}, nil
	}
	if err := tr.Deregister(ctx, id); err != nil {
		return nil, wire.ToStatus(errs.Wrap(errs.CodeOf(err), s.op+": deregister", err))
	}
	s.drop(id)
	return &transportv1.DeregisterResponse{}, nil
}

// Stats implements TransportService.
func (s *server) Stats(context.Context, *transportv1.StatsRequest) (*transportv1.StatsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &transportv1.StatsResponse{
		Operations: s.stats.Operations.Load(), BytesCopied: s.stats.Copied.Load(), Regions: uint64(len(s.regions)), Paths: uint64(len(s.pumps)),
		Goroutines: uint64(runtime.NumGoroutine()), //nolint:gosec // It is positive.
	}, nil
}

// Watch implements TransportService.
func (s *server) Watch(_ *transportv1.WatchRequest, stream grpc.ServerStreamingServer[transportv1.WatchResponse]) error {
	tr, err := s.object()
	if err != nil {
		return err
	}
	for {
		changed := s.changes.next()
		if err := stream.Send(&transportv1.WatchResponse{Endpoint: encodeEndpoint(tr.Endpoint())}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			return nil
		case <-stream.Context().Done():
			return nil
		}
	}
}

// changes forwards the changes of a transport, which has one channel, to many watchers.
type changes struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced by every change
}

func newChanges() *changes { return &changes{changed: make(chan struct{})} }

// next returns a channel that is closed by the next change.
func (c *changes) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

func (c *changes) follow(ctx context.Context, from <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-from:
		}
		c.mu.Lock()
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
	}
}
