package tierwire

import (
	"context"
	"log/slog"
	"sync"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/memwire"
	tierv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/tier/v1"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/wire"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// server is the plugin's side of a tier.
type server struct {
	tierv1.UnimplementedTierServiceServer

	op     string
	object func() (tier.Tier, error)
	data   *shm.Conn
	inbox  *memwire.Inbox
	logger *slog.Logger
	areas  memwire.Areas

	running sync.WaitGroup
	ctx     context.Context //nolint:containedctx // For goroutines that run until close.
	cancel  context.CancelFunc

	mu   sync.Mutex
	pump *pump
	fds  map[uint64]int // by handle; the tier may use them until Deregister
}

func newServer(o wire.Served[tier.Tier]) *server {
	s := &server{op: o.Manifest.String(), object: o.Object, data: o.Data, inbox: memwire.NewInbox(), logger: o.Logger, fds: map[uint64]int{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// close ends the goroutines of the server. The tier was stopped before, or its process ends.
func (s *server) close() {
	s.cancel()
	s.running.Wait()
	s.inbox.Close()
}

// stopped frees the regions once the tier has been stopped.
func (s *server) stopped(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.areas.UnmapAll()
	for handle, fd := range s.fds {
		_ = unix.Close(fd)
		delete(s.fds, handle)
	}
	return err
}

// fail gives an error to the host.
func (s *server) fail(op string, err error) error {
	return wire.ToStatus(errs.Wrap(errs.CodeOf(err), s.op+": "+op, err))
}

// Operate implements TierService.
func (s *server) Operate(stream grpc.BidiStreamingServer[tierv1.OperateRequest, tierv1.OperateResponse]) error {
	t, err := s.object()
	if err != nil {
		return err
	}
	p := newPump(t, &s.areas, stream, s.logger)
	s.mu.Lock()
	switch {
	case s.data == nil:
		err = errs.New(errs.NotSupported, "", "the host gave no socket for descriptors (%s)", wire.DataEnv)
	case s.pump != nil:
		err = errs.New(errs.UnavailableInCurrentStatus, "", "operate comes once")
	case s.ctx.Err() != nil:
		err = errs.New(errs.UnavailableInCurrentStatus, "", "the program ends")
	default:
		s.pump = p
		s.running.Go(func() { s.inbox.Receive(s.ctx, s.data, s.logger) })
		s.running.Go(p.reap)
	}
	s.mu.Unlock()
	if err != nil {
		return s.fail("operate", err)
	}
	if err := p.run(s.ctx); err != nil {
		return s.fail("operate", err)
	}
	return nil
}

// Volume implements TierService.
func (s *server) Volume(context.Context, *tierv1.VolumeRequest) (*tierv1.VolumeResponse, error) {
	t, err := s.object()
	if err != nil {
		return nil, err
	}
	return &tierv1.VolumeResponse{Volume: encodeVolume(t.Volume())}, nil
}

// Space implements TierService.
func (s *server) Space(_ context.Context, m *tierv1.SpaceRequest) (*tierv1.SpaceResponse, error) {
	t, err := s.object()
	if err != nil {
		return nil, err
	}
	return &tierv1.SpaceResponse{Space: t.Space(tier.Record{Key: make([]byte, min(m.GetKey(), tier.MaxKey)), Size: m.GetSize()})}, nil
}

// Register implements TierService.
func (s *server) Register(ctx context.Context, m *tierv1.RegisterRequest) (*tierv1.RegisterResponse, error) {
	t, err := s.object()
	if err != nil {
		return nil, err
	}
	fds, err := s.inbox.Take(ctx, m.GetToken())
	if err != nil {
		return nil, s.fail("register", err)
	}
	fd, handle := fds[0], m.GetToken()
	memwire.CloseFDs(fds[1:])
	b, _, err := s.areas.Map(handle, fd, m.GetOffset(), m.GetBytes(), m.GetAddr())
	if err != nil {
		_ = unix.Close(fd)
		return nil, s.fail("register", errs.Wrap(errs.InvalidParams, "", err))
	}
	if err := t.Register(ctx, tier.Region{ID: tier.RegionID(handle), Mem: b, FD: fd, FDOffset: m.GetOffset()}); err != nil {
		s.areas.Unmap(handle)
		_ = unix.Close(fd)
		return nil, s.fail("register", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fds[handle] = fd
	return &tierv1.RegisterResponse{}, nil
}

// Deregister implements TierService. After an error the memory stays mapped, and the host may repeat
// the call. An unknown region is no error, because an earlier answer may have been lost.
func (s *server) Deregister(ctx context.Context, m *tierv1.DeregisterRequest) (*tierv1.DeregisterResponse, error) {
	t, err := s.object()
	if err != nil {
		return nil, err
	}
	handle := m.GetToken()
	if !s.holds(handle) {
		return &tierv1.DeregisterResponse{}, nil
	}
	if err := t.Deregister(ctx, tier.RegionID(handle)); err != nil && s.holds(handle) {
		return nil, s.fail("deregister", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if fd, held := s.fds[handle]; held {
		s.areas.Unmap(handle)
		_ = unix.Close(fd)
		delete(s.fds, handle)
	}
	return &tierv1.DeregisterResponse{}, nil
}

func (s *server) holds(handle uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, held := s.fds[handle]
	return held
}

// Forget implements TierService.
func (s *server) Forget(ctx context.Context, m *tierv1.ForgetRequest) (*tierv1.ForgetResponse, error) {
	t, err := s.object()
	if err != nil {
		return nil, err
	}
	if err := wire.Columns("forget", len(m.GetAt()), maxForget); err != nil {
		return nil, wire.ToStatus(err)
	}
	at := make([]tier.Locator, len(m.GetAt()))
	for i, l := range m.GetAt() {
		at[i] = decodeLocator(l)
	}
	if err := t.Forget(ctx, at); err != nil {
		return nil, s.fail("forget", err)
	}
	return &tierv1.ForgetResponse{}, nil
}

// Scan implements TierService.
func (s *server) Scan(ctx context.Context, m *tierv1.ScanRequest) (*tierv1.ScanResponse, error) {
	t, err := s.object()
	if err != nil {
		return nil, err
	}
	dst := make([]tier.Found, min(m.GetLimit(), maxFound))
	n, next, err := t.Scan(ctx, tier.Cursor{m.GetFromA(), m.GetFromB()}, dst)
	switch {
	case err != nil:
		return nil, s.fail("scan", err)
	case n < 0 || n > len(dst):
		return nil, s.fail("scan", errs.New(errs.Internal, "", "the tier stored %d records in place for %d", n, len(dst)))
	}
	return &tierv1.ScanResponse{Found: encodeFound(dst[:n]), NextA: next[0], NextB: next[1]}, nil
}

// Flush implements TierService.
func (s *server) Flush(ctx context.Context, _ *tierv1.FlushRequest) (*tierv1.FlushResponse, error) {
	t, err := s.object()
	if err != nil {
		return nil, err
	}
	if err := t.Flush(ctx); err != nil {
		return nil, s.fail("flush", err)
	}
	return &tierv1.FlushResponse{}, nil
}

// Wipe implements TierService. The writes that the host submitted before have reached the tier, or
// fail here.
func (s *server) Wipe(ctx context.Context, m *tierv1.WipeRequest) (*tierv1.WipeResponse, error) {
	t, err := s.object()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	p := s.pump
	s.mu.Unlock()
	if p == nil {
		err = errs.New(errs.UnavailableInCurrentStatus, "", "operate comes first")
	} else {
		err = p.overtake(ctx, m.GetAfter())
	}
	if err == nil {
		err = t.Wipe(ctx)
	}
	if err != nil {
		return nil, s.fail("wipe", err)
	}
	return &tierv1.WipeResponse{Volume: encodeVolume(t.Volume())}, nil
}

// Stats implements TierService.
func (s *server) Stats(ctx context.Context, _ *tierv1.StatsRequest) (*tierv1.StatsResponse, error) {
	t, err := s.object()
	if err != nil {
		return nil, err
	}
	st, err := t.Stats(ctx)
	if err != nil {
		return nil, s.fail("stats", err)
	}
	return encodeStats(st), nil
}
