package serve

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// StatusServer reports over TCP what a Server is doing. It moves no bytes and gives no access, so
// that the port may be open to other machines.
type StatusServer struct{ grpc *grpc.Server }

// NewStatusServer makes one. Nothing runs before Serve. k may be nil.
func NewStatusServer(s *Server, k *access.Control) *StatusServer {
	g := grpc.NewServer(grpc.Creds(access.Credentials()), grpc.MaxRecvMsgSize(4<<10), grpc.MaxConcurrentStreams(16), grpc.MaxHeaderListSize(16<<10), grpc.WaitForHandlers(true),
		grpc.ConnectionTimeout(s.cfg.HelloTimeout), grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: time.Minute}))
	g.RegisterService(k.Service(localv1.StatusService_ServiceDesc, func(err error) error {
		return grpcstatus.Error(codes.PermissionDenied, err.Error())
	}), &status{s: s})
	return &StatusServer{grpc: g}
}

// Serve answers on ln until Stop, and closes it. It returns nil after Stop.
func (s *StatusServer) Serve(ln net.Listener) error { return s.grpc.Serve(ln) }

// Stop ends Serve and every connection.
func (s *StatusServer) Stop() { s.grpc.Stop() }

type status struct {
	localv1.UnimplementedStatusServiceServer
	s *Server
}

// Status implements StatusService.
func (v *status) Status(context.Context, *localv1.StatusRequest) (*localv1.StatusResponse, error) {
	f := v.s.Figures()
	return &localv1.StatusResponse{
		Version: v.s.deps.Version, Pid: uint64(os.Getpid()), Socket: v.s.cfg.Socket,
		Attached: uint32(f.Attached), Regions: uint32(f.Regions), MappedBytes: f.Mapped, LentBytes: f.Lent, Calls: uint32(f.Calls),
	}, nil
}

// Figures is what a Server is doing now.
type Figures struct {
	// Attached processes, the regions of memory that they share, and calls in flight.
	Attached, Regions, Calls int
	// Mapped, Lent and Quarantined are bytes: of the regions, of objects that processes
	// hold, and of memory that stays mapped because it may still be written to.
	Mapped, Lent, Quarantined uint64
	// Served counts calls since the start.
	Served uint64
}

// Figures returns what the server is doing now.
func (s *Server) Figures() Figures {
	f := Figures{Calls: int(s.inFlight.Load()), Served: s.served.Load(), Quarantined: s.quarantined.Load()}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.peers {
		p.mu.Lock()
		f.Attached++
		f.Regions += len(p.regions)
		f.Mapped += p.bytes
		f.Lent += uint64(p.lent)
		p.mu.Unlock()
	}
	return f
}

func (s *Server) register(to prometheus.Registerer) error {
	if to == nil {
		return nil
	}
	gauge := func(name, help string, get func(Figures) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mooncake_local_" + name, Help: help}, func() float64 { return get(s.Figures()) })
	}
	for _, c := range []prometheus.Collector{
		gauge("processes", "Processes of this host that are attached.", func(f Figures) float64 { return float64(f.Attached) }),
		gauge("mapped_bytes", "Memory of attached processes that is mapped here.", func(f Figures) float64 { return float64(f.Mapped) }),
		gauge("lent_bytes", "Memory of objects that attached processes hold.", func(f Figures) float64 { return float64(f.Lent) }),
		gauge("quarantined_bytes", "Memory that stays mapped because an operation that was given up may still write to it.", func(f Figures) float64 { return float64(f.Quarantined) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "mooncake_local_calls_total", Help: "Calls of attached processes."},
			func() float64 { return float64(s.served.Load()) }),
	} {
		if err := to.Register(c); err != nil {
			return errs.Wrap(errs.Internal, "local service: register metrics", err)
		}
	}
	return nil
}
