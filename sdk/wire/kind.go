package wire

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// Kind describes a kind of plugins, whose objects are of type T, to the wire. The package beside
// the contract makes it (evict/evictwire.Kind); package kinds lists all.
type Kind[T plugin.Component] struct {
	// Name is the kind as manifests name it.
	Name string
	// API lists the contract versions that both sides of this wire support.
	API []uint
	// Data reports whether calls pass descriptors: then both sides get a socket for them.
	Data bool
	// Serve makes the plugin's side.
	Serve func(Served[T]) Service
	// Client makes the host's side, which implements T. It sends nothing yet.
	Client func(grpc.ClientConnInterface, ClientOptions) Client
	// Wrap returns an object that forwards Start and Stop to lifecycle and all other calls to
	// object.
	Wrap func(object T, lifecycle plugin.Component) T
	// Named returns an object that forwards all calls to object. The error of each call names the plugin id and the operation
	// once, as those of a Client do.
	Named func(object T, id plugin.ID) T
	// Route returns an object that makes each call, named op, through route, and forwards Start and
	// Stop to lifecycle. It is nil for a kind whose host keeps state between processes.
	Route func(lifecycle plugin.Component, route Router[T]) T
}

// Router runs call on an object of its choice, or returns an error without running it.
type Router[T any] func(ctx context.Context, op string, call func(T) error) error

// Served is the object that a Server serves, and its surroundings.
type Served[T any] struct {
	Manifest plugin.Manifest
	// Object returns the object, or a gRPC status error until it is configured.
	Object func() (T, error)
	Logger *slog.Logger
	// Data is ServerOptions.Data.
	Data *shm.Conn
}

// Service is the plugin's side of one kind. Only Register is required.
type Service struct {
	Register func(grpc.ServiceRegistrar)
	// Stopped frees the resources of the service after the object has stopped.
	Stopped func(context.Context) error
	// Close ends the goroutines of the service. The process is about to exit.
	Close func()
}

// Client is the host's side of a plugin of any kind.
type Client interface {
	plugin.Component
	// Describe asks for the manifest and validates it.
	Describe(ctx context.Context) (Description, error)
	// Configure creates the object with settings, a JSON object or nothing, for a contract
	// version that both sides support.
	Configure(ctx context.Context, api uint, settings []byte) error
}

// Descriptor is a Kind without its type.
type Descriptor struct {
	// Name, API and Data are those of the Kind.
	Name string
	API  []uint
	Data bool

	create func(plugin.Factory, plugin.Config) (plugin.Component, error)
	serve  func(*Server, ServerOptions) Service
	client func(grpc.ClientConnInterface, ClientOptions) Client
}

// Descriptor returns the kind as a Server and go-plugin need it.
func (k Kind[T]) Descriptor() Descriptor {
	return Descriptor{
		Name: k.Name, API: k.API, Data: k.Data, client: k.Client,
		create: func(f plugin.Factory, cfg plugin.Config) (plugin.Component, error) {
			typed, ok := f.(plugin.FactoryOf[T])
			if !ok {
				return nil, errs.New(errs.InvalidParams, "", "the factory is a %T, which does not make plugins of kind %s", f, k.Name)
			}
			return typed.New(cfg)
		},
		serve: func(s *Server, o ServerOptions) Service {
			return k.Serve(Served[T]{Manifest: s.factory.Manifest(), Object: func() (T, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				object, ok := s.object.(T)
				if !ok {
					return object, ToStatus(errs.New(errs.UnavailableInCurrentStatus, s.factory.Manifest().String(), "the plugin is not configured yet"))
				}
				return object, nil
			}, Logger: o.Logger, Data: o.Data})
		},
	}
}
