package evictwire

import (
	"context"
	"slices"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/evict"
	evictv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/evict/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// Client is an eviction policy on the other side of a connection. It implements
// evict.Sized; it does not own the connection.
type Client struct {
	*wire.Lifecycle
	caller *wire.Caller
	rpc    evictv1.EvictServiceClient
}

var _ evict.Sized = (*Client)(nil)

// NewClient makes a client; nothing is sent before Configure.
func NewClient(conn grpc.ClientConnInterface, o wire.ClientOptions) *Client {
	return &Client{Lifecycle: wire.NewLifecycle(conn, o.ID), caller: wire.NewCaller(o), rpc: evictv1.NewEvictServiceClient(conn)}
}

// Record implements evict.Policy. When it fails, an unknown prefix of the events was
// recorded.
func (e *Client) Record(ctx context.Context, events []evict.Event) error {
	for part := range slices.Chunk(events, maxEvents) {
		if _, err := wire.Call(ctx, e.caller, "record", e.rpc.Record, encodeEvents(part)); err != nil {
			return err
		}
	}
	return nil
}

// SetCapacity implements evict.Sized. A plugin that does not know of capacities gets a batch without events.
func (e *Client) SetCapacity(ctx context.Context, bytes uint64) error {
	_, err := wire.Call(ctx, e.caller, "set capacity", e.rpc.Record, &evictv1.RecordRequest{Capacity: &bytes})
	return err
}

// Propose implements evict.Policy. When it fails after the plugin proposed some already,
// it returns those without an error, since they need a verdict.
func (e *Client) Propose(ctx context.Context, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
	had := len(dst)
	for bytes > 0 && len(dst) < cap(dst) {
		limit := min(cap(dst)-len(dst), maxCandidates)
		before := len(dst)
		m, err := wire.CallGiving(ctx, e.caller, e.caller.Timeout, "propose", e.rpc.Propose,
			&evictv1.ProposeRequest{Bytes: bytes, MaxCandidates: uint32(limit)}, e.giveBack)
		if err == nil {
			dst, err = appendCandidates(dst, m, limit)
		}
		if err != nil && before > had {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
		for _, c := range dst[before:] {
			bytes -= min(bytes, c.Size)
		}
		if len(dst)-before < limit {
			break
		}
	}
	return dst, nil
}

// giveBack spares the objects of a proposal whose caller no longer waits.
func (e *Client) giveBack(ctx context.Context, m *evictv1.ProposeResponse) {
	if cs, err := appendCandidates(nil, m, maxCandidates); err == nil {
		_ = e.Resolve(ctx, spared(cs))
	}
}

// Resolve implements evict.Policy.
func (e *Client) Resolve(ctx context.Context, verdicts []evict.Verdict) error {
	for part := range slices.Chunk(verdicts, maxVerdicts) {
		if _, err := wire.Call(ctx, e.caller, "resolve", e.rpc.Resolve, encodeVerdicts(part)); err != nil {
			return err
		}
	}
	return nil
}

// Stats implements evict.Policy.
func (e *Client) Stats(ctx context.Context) (evict.Stats, error) {
	m, err := wire.Call(ctx, e.caller, "stats", e.rpc.Stats, &evictv1.StatsRequest{})
	return evict.Stats{Objects: m.GetObjects(), Bytes: m.GetBytes(), Proposed: m.GetProposed()}, err
}
