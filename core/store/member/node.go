package member

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/core/transfer/assembly"
)

// maxRegistration is the size in bytes of the largest memory that one registration with a transport
// may have. A larger segment is mounted in several segments.
const maxRegistration = 1 << 40

// MemoryTime returns how long memory of size bytes may take to be allocated and registered: 1 s for
// each GB. RDMA devices touch and pin all of it, and nothing interrupts them.
func MemoryTime(size uint64) time.Duration { return time.Duration(min(size, uint64(24*time.Hour))) }

// Status is what the HTTP port of a node shows. It exists before the node.
type Status struct {
	// Metrics are those of the node and of its Go runtime.
	Metrics  prometheus.Gatherer
	registry *prometheus.Registry // nil if the configuration wants no metrics
	node     atomic.Pointer[node.Node]
}

func newStatus(s config.Store) *Status {
	runtime := prometheus.NewRegistry()
	runtime.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	shown, status := prometheus.Gatherers{runtime}, &Status{}
	if s.ClientMetric {
		status.registry = prometheus.NewRegistry()
		shown = append(shown, status.registry)
	}
	status.Metrics = shown
	return status
}

// Registerer returns where components of the node register their metrics, nil for no metrics.
func (s *Status) Registerer() prometheus.Registerer {
	if s.registry == nil {
		return nil
	}
	return s.registry
}

// Started returns the node, nil before it has started, and whether its memory is mounted at a master
// that answers.
func (s *Status) Started() (node *node.Node, mounted bool) {
	if node = s.node.Load(); node == nil {
		return nil, false
	}
	return node, node.Mounted() && !node.Health().Down
}

// Start says how a node starts.
type Start int

// The ways.
const (
	// AfterJoin returns once the node has joined the pool.
	AfterJoin Start = iota
	// InBackground returns at once; the node joins the pool when the master answers.
	InBackground
)

// Node is a member that may contribute memory.
type Node struct {
	member *Member
	engine assembly.Running
	status *Status
	cfg    node.Config
	how    Start
	client *client.Client
}

func newNode(m *Member, engine assembly.Running, status *Status, how Start) (*Node, error) {
	s, n := m.cfg, node.DefaultConfig()
	n.Segments = memory.Pieces(uint64(s.GlobalSegmentSize), maxRegistration)
	var err error
	if n.HugePages, err = memory.HugePagesOf(s); err != nil {
		return nil, err
	}
	n.Placement, n.Location = memory.OnNode(s.NUMANode, s.NUMAStrict), ""
	n.Protocol = s.Protocol
	n.StartWait, n.StopGrace = s.MaxWaitTime, s.UnmountGrace
	n.Grants = m.grants
	n.RPCTimeout = min(n.RPCTimeout, s.RPCTimeout)
	_, own := engine.(*assembly.Engine)
	n.SharedEngine = !own
	return &Node{member: m, engine: engine, status: status, cfg: n, how: how}, n.Validate()
}

// Client returns the client of the node, nil before the start.
func (n *Node) Client() *client.Client { return n.client }

// Store returns the node itself, nil before the start.
func (n *Node) Store() *node.Node { return n.status.node.Load() }

func (n *Node) start(ctx context.Context) error {
	err := n.begin(ctx)
	if err == nil && n.how == AfterJoin {
		err = n.Store().Await(ctx, n.cfg.StartWait)
	}
	if err != nil {
		err = errors.Join(err, n.stop(context.WithoutCancel(ctx)))
	}
	return err
}

// begin starts the client and the node, which joins the pool in the background.
func (n *Node) begin(ctx context.Context) error {
	if err := n.member.use(n.engine); err != nil {
		return err
	}
	deps := n.member.deps()
	client, err := client.New(n.member.clientConfig(), deps)
	if err != nil {
		return err
	}
	cfg := n.cfg
	cfg.Kept, cfg.Tiers = n.member.kept, n.member.disks.settings()
	node, err := node.New(cfg, deps)
	if err == nil {
		n.member.disks.serve(node, n.member.stageServer, deps.Log)
		err = node.Begin(ctx)
	}
	if err != nil {
		return errors.Join(err, client.Close(context.WithoutCancel(ctx)))
	}
	n.client = client
	n.status.node.Store(node)
	return nil
}

func (n *Node) stop(ctx context.Context) error {
	var err error
	if node := n.Store(); node != nil {
		n.member.disks.hush(ctx)
		err = errors.Join(n.client.Close(ctx), node.Stop(ctx))
	}
	n.member.leave()
	return err
}
