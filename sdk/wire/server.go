package wire

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// ServerOptions are what the object behind a Server gets from its surroundings.
type ServerOptions struct {
	// Logger reaches the object through plugin.Host; nil discards all records.
	Logger *slog.Logger
	// Data is the socket over which a kind with Kind.Data gets descriptors, nil for others. The caller
	// owns it, and closes it after Close.
	Data *shm.Conn
}

// Server serves one object of one factory: the plugin's side of the wire. Safe for
// concurrent use.
type Server struct {
	pluginv1.UnimplementedLifecycleServiceServer

	kind     Descriptor
	factory  plugin.Factory
	manifest []byte
	settings []byte // the schema of what the factory accepts
	host     *serverHost
	service  Service

	mu      sync.Mutex
	object  plugin.Component // nil until Configure
	started bool
}

// NewServer wraps a factory of the kind k; NotSupported for a factory of another kind.
func NewServer(k Descriptor, f plugin.Factory, o ServerOptions) (*Server, error) {
	id := f.Manifest().ID
	if id.Kind != k.Name {
		return nil, errs.New(errs.NotSupported, "serve "+id.String(), "the server is for plugins of kind %s", k.Name)
	}
	manifest, err := json.Marshal(f.Manifest())
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, "serve "+id.String()+": manifest", err)
	}
	settings, err := f.Settings()
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, "serve "+id.String()+": settings", err)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{kind: k, factory: f, manifest: manifest, settings: settings, host: newServerHost(o.Logger)}
	s.service = k.serve(s, o)
	return s, nil
}

// Register adds the services of the plugin's kind to a gRPC server, which should have
// been made with GRPCServerOptions.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	pluginv1.RegisterLifecycleServiceServer(r, s)
	s.service.Register(r)
}

// GRPCServerOptions are the limits that a gRPC server needs for these services.
func GRPCServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage), grpc.MaxConcurrentStreams(maxInFlight + 16),
	}
}

// Close stops the object, if there is one, for a program that ends.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	object := s.object
	s.mu.Unlock()
	s.host.close()
	if s.service.Close != nil {
		defer s.service.Close()
	}
	if object == nil {
		return nil
	}
	return s.stop(ctx, object)
}

// stop stops the object, and frees what was made for it.
func (s *Server) stop(ctx context.Context, object plugin.Component) error {
	if err := object.Stop(ctx); err != nil || s.service.Stopped == nil {
		return err
	}
	return s.service.Stopped(ctx)
}

// Describe implements LifecycleService.
func (s *Server) Describe(context.Context, *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	return &pluginv1.DescribeResponse{ManifestJson: s.manifest, SettingsJson: s.settings}, nil
}

// Configure implements LifecycleService. A refused configuration may be followed by
// another one; an accepted one is final.
func (s *Server) Configure(_ context.Context, m *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, err := s.create(m)
	if err != nil {
		return nil, ToStatus(err)
	}
	s.object = object
	return &pluginv1.ConfigureResponse{}, nil
}

// create makes the object. The caller holds mu.
func (s *Server) create(m *pluginv1.ConfigureRequest) (object plugin.Component, err error) {
	id := s.factory.Manifest().ID
	op := id.String() + ": configure"
	if s.object != nil {
		return nil, errs.New(errs.UnavailableInCurrentStatus, op, "the plugin is configured already; a new configuration needs a new process")
	}
	speaks := s.factory.Manifest().API
	if !slices.Contains(speaks, uint(m.GetApi())) || !slices.Contains(s.kind.API, uint(m.GetApi())) {
		return nil, errs.New(errs.InvalidVersion, op, "the host chose contract version %d, the plugin speaks %v", m.GetApi(), speaks)
	}
	cfg, err := DecodeConfig(s.factory, m.GetConfigJson())
	if err != nil {
		return nil, err
	}
	object, err = s.kind.create(s.factory, cfg)
	if err != nil {
		return nil, Wrap(errs.CodeOf(err), op, err)
	}
	if object == nil {
		return nil, errs.New(errs.Internal, op, "the plugin made nothing")
	}
	return object, nil
}

// Start implements LifecycleService.
func (s *Server) Start(ctx context.Context, m *pluginv1.StartRequest) (*pluginv1.StartResponse, error) {
	op := s.factory.Manifest().String() + ": start"
	s.mu.Lock()
	object, again := s.object, s.started
	s.started = s.started || object != nil
	s.mu.Unlock()
	if object == nil || again {
		return nil, ToStatus(errs.New(errs.UnavailableInCurrentStatus, op, "start comes once, after configure"))
	}
	s.host.secure(securityFrom(m.GetSecurity()))
	s.host.Report(plugin.Health{State: plugin.StateStarting})
	if err := object.Start(ctx, s.host); err != nil {
		s.host.Report(plugin.Health{State: plugin.StateFailed, Reason: err.Error()})
		return nil, ToStatus(Wrap(errs.CodeOf(err), op, err))
	}
	s.host.started()
	return &pluginv1.StartResponse{}, nil
}

// Stop implements LifecycleService.
func (s *Server) Stop(ctx context.Context, _ *pluginv1.StopRequest) (*pluginv1.StopResponse, error) {
	s.mu.Lock()
	object := s.object
	s.mu.Unlock()
	if object != nil {
		if err := s.stop(ctx, object); err != nil {
			return nil, ToStatus(Wrap(errs.CodeOf(err), s.factory.Manifest().String()+": stop", err))
		}
	}
	s.host.Report(plugin.Health{State: plugin.StateStopped})
	return &pluginv1.StopResponse{}, nil
}

// WatchHealth implements LifecycleService. A watcher that is slower than the changes sees
// the latest of them.
func (s *Server) WatchHealth(_ *pluginv1.WatchHealthRequest, stream grpc.ServerStreamingServer[pluginv1.WatchHealthResponse]) error {
	for seen := uint64(0); ; {
		h, version, changed := s.host.latest()
		if version != seen {
			seen = version
			if err := stream.Send(&pluginv1.WatchHealthResponse{State: string(h.State), Reason: Clip(h.Reason, MaxText)}); err != nil {
				return err
			}
			continue
		}
		select {
		case <-changed:
		case <-s.host.closed:
			return nil
		case <-stream.Context().Done():
			return nil
		}
	}
}
