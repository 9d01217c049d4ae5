// Package storeservice is the HTTP face of a store node: put, get and remove objects, and
// mount and unmount memory, in the shapes of upstream's store service, by default on port
// 8080. routes is the table of everything.
//
// Every error is JSON: "error" has upstream's text where upstream has one, "detail" the
// reason for people, "error_code" the number of the store's error where there is one.
//
// Everything has a bound: a body 100 MiB, what the bodies and objects of all requests hold
// together Options.Memory, the pace of a client 256 KiB/s after 10 s, the wait for memory
// 5 s, a call 2 min.
package storeservice

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/httpd"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/node"
)

// Objects is what the service asks of the pool. *client.Client satisfies it.
type Objects interface {
	Put(ctx context.Context, key model.Key, value []byte, cfg model.ReplicateConfig) error
	Get(ctx context.Context, key model.Key) ([]byte, error)
	Size(ctx context.Context, key model.Key) (uint64, error)
	Exist(ctx context.Context, key model.Key) (bool, error)
	Remove(ctx context.Context, key model.Key, force bool) error
	RemoveAll(ctx context.Context, force bool) (int, error)
}

// Segments is what the service asks of the node it belongs to. *node.Node satisfies it.
type Segments interface {
	MountSegment(ctx context.Context, o node.MountOptions) ([]model.SegmentID, error)
	UnmountSegments(ctx context.Context, ids []model.SegmentID, grace time.Duration) error
	UnmountTiers(ctx context.Context, grace time.Duration) error
	Segments() []model.Segment
}

// Options are the settings of a Service; the zero value is usable.
type Options struct {
	// Memory bounds what the requests in progress hold together, in bytes. A larger request runs
	// alone. Default 1 GiB.
	Memory int64
	// MaxBody bounds the body of a put, in bytes. Default 100 MiB, as upstream's.
	MaxBody int
	// Dirs are the folders in which Files lie. Default /dev/shm and /dev/hugepages.
	// The names of mount_shm are in the first.
	Dirs []string
	// Files are the beginnings of the paths of those files in Dirs that may be mounted; with none, no
	// file may.
	Files []string
	// Protocols are the transports that a mount may name; none allows every name.
	Protocols []string
	// Access decides over the requests of peers with an identity, nil tells nothing. Tenant is that whose objects
	// the service has, empty for the default one.
	Access *access.Control
	Tenant model.Tenant
	// Logger, nil for none.
	Logger *slog.Logger
}

// The bounds of a request.
const (
	maxBody    = 100 << 20 // bytes, the default
	maxControl = 1 << 20   // bytes of a body that holds no value
	callWait   = 2 * time.Minute
	memoryWait = 5 * time.Second
)

// Service is the handler. Safe for concurrent use.
type Service struct {
	objects   Objects
	segments  Segments
	opts      Options
	log       *slog.Logger
	memory    *semaphore.Weighted
	turn      chan struct{} // capacity 1: held while segments change
	role      role          // what reconfigure mounted; guarded by turn
	resources map[string]map[string]route
}

// New makes the service of a node that is started.
func New(objects Objects, segments Segments, opts Options) *Service {
	if opts.Memory <= 0 {
		opts.Memory = 1 << 30
	}
	if opts.MaxBody <= 0 {
		opts.MaxBody = maxBody
	}
	if len(opts.Dirs) == 0 {
		opts.Dirs = []string{"/dev/shm", "/dev/hugepages"}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{
		objects: objects, segments: segments, opts: opts, log: opts.Logger,
		memory: semaphore.NewWeighted(opts.Memory), turn: make(chan struct{}, 1), resources: map[string]map[string]route{},
	}
	for _, r := range routes() {
		if s.resources[r.path] == nil {
			s.resources[r.path] = map[string]route{}
		}
		r.call = access.Find(string(config.DoorREST), r.method+" "+r.path)
		s.resources[r.path][r.method] = r
	}
	return s
}

// NewServer returns a server for h, which bounds the times of each request itself. d, of the door rest, and log may
// be nil.
func NewServer(h http.Handler, d *doors.Doors, log *slog.Logger) *httpd.Server {
	longest := callWait + maxBody/pace*time.Second + memoryWait
	return httpd.New(h, httpd.Options{ReadTimeout: longest, WriteTimeout: longest, Doors: d, Door: config.DoorREST, Logger: log})
}
