package rpc_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// tableMaster is a master in one map: enough behaviour that an answer which got lost or
// swapped on the way shows.
type tableMaster struct {
	mu       sync.Mutex
	objects  map[model.Key]*entry
	segments []model.SegmentInfo
	reports  []model.PeerReport
	tasks    map[model.TaskID]*model.Task
	clients  map[model.ClientID]int
	nextID   uint64

	version string
	ready   error
	// before runs at the start of Exist and GetReplicas, outside of the lock.
	before   func(ctx context.Context, keys []model.Key)
	reported []model.LedgerReport
	// followers are the addresses that Follow was told.
	followers []string
	// batches collects the sizes of the batches that arrived.
	batches []int
}

type entry struct {
	owner    model.ClientID
	tenant   model.Tenant
	object   model.Object
	cfg      model.ReplicateConfig
	group    string
	complete bool
	copying  *model.CopyKind
}

var _ store.Master = (*tableMaster)(nil)

func newTableMaster() *tableMaster {
	return &tableMaster{objects: map[model.Key]*entry{}, clients: map[model.ClientID]int{}, tasks: map[model.TaskID]*model.Task{}, version: "1.2.3"}
}

func (m *tableMaster) Ready(context.Context) (string, error) { return m.version, m.ready }

func (m *tableMaster) MountSegment(_ context.Context, c model.ClientID, s model.Segment) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.Base == 0 || s.Size == 0 {
		return errs.New(errs.InvalidParams, "mount", "base and size must not be 0")
	}
	m.clients[c]++
	m.segments = append(m.segments, model.SegmentInfo{Segment: s, Client: c, Status: model.SegmentOK, Used: s.Size / 3, Weight: 1 / float64(s.Size),
		Writing: s.Size / 5, Held: s.Size / 7, AbsentSince: time.UnixMicro(int64(s.Size)), Adopted: s.Size / 11})
	return nil
}

func (m *tableMaster) RemountSegments(ctx context.Context, c model.ClientID, segs []model.Segment) error {
	for _, s := range segs {
		if err := m.MountSegment(ctx, c, s); err != nil {
			return err
		}
	}
	return nil
}

func (m *tableMaster) Attach(_ context.Context, c model.ClientID, ledgers []model.LedgerState) (out model.Attached, err error) {
	for _, l := range ledgers {
		if l.Segment.Size == 0 {
			return model.Attached{}, errs.New(errs.InvalidParams, "attach", "base and size must not be 0")
		}
		out.Lease = max(out.Lease, l.Lease)
		out.Segments = append(out.Segments, model.LedgerGrant{Epoch: l.Fence + l.Seq + c.Hi, Resume: l.Wiped || l.Puts > 0, Tail: l.Fence > l.Seq, Since: l.Seq + uint64(l.Layout)})
	}
	return out, nil
}

func (m *tableMaster) Report(_ context.Context, c model.ClientID, r model.LedgerReport) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Last && r.Seq == 0 {
		return errs.New(errs.ChecksumMismatch, "report", "of %s", c)
	}
	r.Batch = slices.Clone(r.Batch)
	m.reported = append(m.reported, r)
	return nil
}

// Follow has Pull name an address.
func (m *tableMaster) Follow(_ context.Context, address string) error {
	if address == "" {
		return errs.New(errs.InvalidParams, "master: follow", "no address")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.followers = append(m.followers, address)
	return nil
}

// Pull answers with what was reported of the acknowledged segments.
func (m *tableMaster) Pull(_ context.Context, _ model.ClientID, round uint64, acks []model.LedgerAck) (model.Pulled, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := model.Pulled{Round: round + 1, Followers: slices.Clone(m.followers), Batches: []model.LedgerBatch{}}
	for _, a := range acks {
		for _, r := range m.reported {
			if r.Segment == a.Segment && r.Epoch == a.Epoch && r.Seq <= a.Seq && r.Last == (r.Index%2 == 1) && !r.Tail {
				out.Batches = append(out.Batches, model.LedgerBatch{Segment: r.Segment, Bytes: r.Batch})
			}
		}
	}
	return out, nil
}

func (m *tableMaster) UnmountSegment(_ context.Context, c model.ClientID, id model.SegmentID, grace time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, s := range m.segments {
		if s.ID != id {
			continue
		}
		if s.Client != c {
			return errs.New(errs.IllegalClient, "unmount", "segment %s belongs to %s", id, s.Client)
		}
		if grace > 0 {
			m.segments[i].Status, m.segments[i].Deadline = model.SegmentGracefullyUnmounting, time.UnixMicro(grace.Microseconds())
			return nil
		}
		m.segments = slices.Delete(m.segments, i, i+1)
		return nil
	}
	return nil
}

func (m *tableMaster) Ping(_ context.Context, c model.ClientID, report model.PingReport) (model.PingReply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reports = append(m.reports, report.Peers...)
	if m.clients[c] == 0 {
		return model.PingReply{Status: model.ClientNeedRemount, ViewVersion: 7}, nil
	}
	return model.PingReply{Status: model.ClientOK, ViewVersion: 7}, nil
}

func (m *tableMaster) Segments(context.Context) ([]model.SegmentInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.segments), nil
}

// QueryHosts answers with the hosts and, so that reports can be compared, what was said of
// the endpoints.
func (m *tableMaster) QueryHosts(_ context.Context, clients []model.ClientID) (map[model.ClientID][]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[model.ClientID][]string{}
	for _, s := range m.segments {
		if slices.Contains(clients, s.Client) {
			out[s.Client] = append(out[s.Client], s.HostID)
		}
	}
	for c := range out {
		out[c] = append(out[c], fmt.Sprint(m.reports))
	}
	return out, nil
}
