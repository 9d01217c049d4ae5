package master

import (
	"context"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/metrics"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

const opMount = "master: mount segment"

// maxRemount bounds the segments of one call.
const maxRemount = 1024

// MountSegment adds a segment and makes the client known.
func (s *Service) MountSegment(ctx context.Context, client model.ClientID, seg model.Segment) error {
	err := s.mount(ctx, opMount, client, []model.Segment{seg})
	s.counters.Mount.Done(err != nil)
	return err
}

// RemountSegments mounts all segments of a client that the master has forgotten, or none.
// Without segments it makes the client known.
func (s *Service) RemountSegments(ctx context.Context, client model.ClientID, segs []model.Segment) error {
	err := s.mount(ctx, "master: remount segments", client, segs)
	s.counters.Remount.Done(err != nil)
	return err
}

// mount adds all segments or none.
func (s *Service) mount(ctx context.Context, op string, client model.ClientID, segs []model.Segment) error {
	if err := s.admit(ctx, op, len(segs)); err != nil {
		return err
	}
	if slices.ContainsFunc(segs, func(s model.Segment) bool { return s.OnTier() }) {
		return errs.WithHint(errs.New(errs.UnableOffload, op, "a segment is a storage tier, which has a ledger"), "attach it")
	}
	if len(segs) > maxRemount {
		return errs.New(errs.InvalidParams, op, "%d segments in one call; the most is %d", len(segs), maxRemount)
	}
	if err := s.lockMounts(ctx, op); err != nil {
		return err
	}
	defer s.unlockMounts()
	if err := s.outlived(op, client, segs); err != nil {
		return err
	}
	known, err := s.welcome(client)
	if err != nil {
		return err
	}
	if err := s.mountAll(ctx, op, client, segs); err != nil {
		if !known && op != opMount {
			s.clients.Forget(client) // So that its pings go on telling it to mount again.
		}
		return err
	}
	if s.young() > 0 {
		s.met[client] = append(s.met[client], segs...)
	}
	switch {
	case op != opMount:
		s.clients.SetPartial(client, false)
	case !known && s.young() > 0:
		s.clients.SetPartial(client, true) // It may have had others at the master before, which its next ping reminds it of.
	}
	return nil
}

// outlived refuses to mount again what a client had mounted at the master before this one, as
// long as readers may have leases, and writers puts, that this one knows nothing of: their memory must not
// be given to others meanwhile. That the client has mounted another segment since says nothing of
// these. Called with the mounts locked.
func (s *Service) outlived(op string, client model.ClientID, segs []model.Segment) error {
	left := s.young()
	met := func(seg model.Segment) bool {
		return slices.ContainsFunc(s.met[client], func(o model.Segment) bool {
			return o.ID == seg.ID || o.Base <= seg.Base && seg.Base+seg.Size <= o.Base+o.Size
		})
	}
	if op == opMount || left <= 0 || !slices.ContainsFunc(segs, func(seg model.Segment) bool { return !met(seg) }) {
		return nil
	}
	return errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, op, "the memory of client %s has no ledger, and clients of the master before this one may read and write there for another %s",
		client, left.Round(time.Millisecond)), "try again then, as a node does by itself; reads last for default_kv_lease_ttl, and writes for %s", s.cfg.WriteGrace)
}

// young is how long leases and writes of clients of the master before this one may last.
func (s *Service) young() time.Duration {
	return max(s.cfg.LeaseTTL, s.cfg.WriteGrace) - time.Duration(s.clock.Now())
}

// claimed refuses a segment whose id, name or endpoint is that of a segment of another identity: objects would be
// written and read there in its place. Called with the mounts locked.
func (s *Service) claimed(op string, client model.ClientID, seg *model.Segment) error {
	if !s.identities {
		return nil
	}
	node, _ := model.SplitTier(seg.Name)
	clash := func(of model.ClientID, o *model.Segment) bool {
		rest, named := strings.CutPrefix(o.Name, node)
		named = named && (rest == "" || rest[0] == '/') // The node itself, or one of its tiers.
		return of.Hi != client.Hi && (o.ID == seg.ID || named || o.Endpoint != "" && o.Endpoint == seg.Endpoint)
	}
	var has *model.Segment
	var whose model.ClientID
	for _, m := range s.registry.View().All {
		if clash(m.Client, &m.Segment) && !(m.OnTier() && m.Absent()) { // A volume may move to another node.
			has, whose = &m.Segment, m.Client
		}
	}
	for _, m := range s.mirrors {
		if clash(m.client, &m.seg.Segment) {
			has, whose = &m.seg.Segment, m.client
		}
	}
	for _, r := range s.reports {
		if clash(r.client, &r.seg) {
			has, whose = &r.seg, r.client
		}
	}
	if has == nil {
		return nil
	}
	return errs.WithHint(errs.WithClass(errs.ClassTransientPeer, "", errs.New(errs.IllegalClient, op+" "+seg.ID.String()+" ("+seg.Name+")",
		"segment %s (%s) at %s is of another identity, of client %s", has.ID, has.Name, has.Endpoint, whose)),
		"give each node an address of its own; where the certificate of a node was replaced by one with another identity, or its address was given to it, try again when the master has dropped the segment, as a node does by itself")
}

// mountAll is mount of a client that is known. Called with the mounts locked.
func (s *Service) mountAll(ctx context.Context, op string, client model.ClientID, segs []model.Segment) error {
	for i := range segs {
		if err := s.claimed(op, client, &segs[i]); err != nil {
			return err
		}
	}
	if err := s.settle(ctx, op, client, segs); err != nil {
		return err
	}
	var added []*segments.Segment
	for _, seg := range segs {
		m, err := s.add(ctx, op, client, seg)
		if err != nil {
			for _, a := range added {
				s.drop(ctx, a, history.SegmentUnmounted)
			}
			return err
		}
		if m != nil {
			added = append(added, m)
		}
	}
	for _, m := range added {
		s.log.Info("segment mounted", "segment", m.Name, "id", m.ID.String(), "client", client.String(), "size", metrics.Bytes(m.Size))
	}
	return nil
}

// add mounts one segment, nil when it is mounted already.
func (s *Service) add(ctx context.Context, op string, client model.ClientID, seg model.Segment) (*segments.Segment, error) {
	if err := s.supersede(ctx, op, client, seg); err != nil {
		return nil, err
	}
	m, known, err := s.registry.Prepare(client, seg)
	if err != nil {
		return nil, err
	}
	if known {
		if st := m.Status(); op == opMount && st != model.SegmentOK {
			return nil, errs.New(errs.UnavailableInCurrentStatus, op, "segment %s (%s) is %s", m.ID, m.Name, st)
		}
		return nil, nil
	}
	err = s.pool.Mount(ctx, m, func() {
		s.health.Mount(m, s.clock.Now())
		s.registry.Add(m)
	})
	if err != nil {
		return nil, errs.Wrap(errs.CodeOf(err), op+" "+seg.Name, err)
	}
	s.setQuotas()
	return m, nil
}

// supersede drops the segments of other clients that lie in the memory of a new one: a process that
// took their endpoint over means that theirs has ended. UnavailableInCurrentStatus while such a
// client gives signs of life: two segments in the same memory would overwrite each other's objects.
// Called with the mounts locked.
func (s *Service) supersede(ctx context.Context, op string, client model.ClientID, seg model.Segment) error {
	old := s.registry.View().SameMemory(client, seg)
	for _, m := range old {
		if seen, known := s.clients.Seen(m.Client); known && s.clock.Now().Sub(seen) < segments.SilentAfter {
			return errs.WithHint(errs.WithClass(errs.ClassTransientPeer, "", errs.New(errs.UnavailableInCurrentStatus, op+" "+seg.ID.String()+" ("+seg.Name+")",
				"client %s has mounted the same memory at %s as segment %s, and is alive; objects would overwrite each other", m.Client, m.Endpoint, m.ID)),
				"if that client's process was replaced, try again in %s, as a node does by itself; if it still runs, give each node an address of its own", segments.SilentAfter)
		}
	}
	for _, m := range old {
		s.drop(ctx, m, history.SegmentExpired)
		s.log.Warn("segment dropped: another client mounts the same memory, and the segment's own client is silent",
			"segment", m.Name, "id", m.ID.String(), "client", m.Client.String(), "new_id", seg.ID.String(), "new_client", client.String())
	}
	return nil
}

// drop takes a segment out: its replicas are unreadable at once, the entries of the table
// follow in the background. Called with the mounts locked.
func (s *Service) drop(ctx context.Context, m *segments.Segment, why history.Reason) {
	s.pool.Enter()
	s.registry.Remove(m)
	s.pool.RemoveSpace(ctx, m.Space)
	s.pool.Leave()
	if m.Ledger != nil {
		for _, e := range m.Ledger.Close() {
			m.Freed(e.Size)
		}
		if m.Ledger.Feed().Remove(m.ID, m.Ledger) {
			s.feeds.Forget(m.Client)
		}
	}
	s.setQuotas()
	s.departed[m] = false
	s.lost.Store(int32(why))
	select {
	case s.sweep <- struct{}{}:
	default: // a sweep that has yet to begin will see it
	}
}

// maxGrace bounds the grace of an unmount.
const maxGrace = 24 * time.Hour

// UnmountSegment takes a segment out, after a grace if there is one. An unknown one is a
// success.
func (s *Service) UnmountSegment(ctx context.Context, client model.ClientID, id model.SegmentID, grace time.Duration) error {
	err := s.unmount(ctx, client, id, grace)
	s.counters.Unmount.Done(err != nil)
	return err
}

func (s *Service) unmount(ctx context.Context, client model.ClientID, id model.SegmentID, grace time.Duration) error {
	const op = "master: unmount segment"
	if err := s.admit(ctx, op, 0); err != nil {
		return err
	}
	if grace < 0 || grace > maxGrace {
		return errs.New(errs.InvalidParams, op, "the grace is %s; it must be 0 to %s", grace, maxGrace)
	}
	if err := s.lockMounts(ctx, op); err != nil {
		return err
	}
	defer s.unlockMounts()
	m := s.registry.Get(id)
	switch {
	case m == nil:
		return nil
	case m.Client != client:
		return errs.New(errs.IllegalClient, op, "segment %s (%s) belongs to client %s, not to %s", id, m.Name, m.Client, client)
	}
	if grace == 0 {
		s.drop(ctx, m, history.SegmentUnmounted)
		s.log.Info("segment unmounted", "segment", m.Name, "id", id.String(), "client", client.String())
		return nil
	}
	deadline := s.clock.Now().Add(grace)
	if m.Status() == model.SegmentGracefullyUnmounting && m.Deadline() <= deadline {
		return nil // An earlier request holds.
	}
	if err := s.registry.SetStatus(m, model.SegmentGracefullyUnmounting, deadline); err != nil {
		return errs.Wrap(errs.UnavailableInCurrentStatus, op, err)
	}
	s.log.Info("segment unmounting", "segment", m.Name, "id", id.String(), "client", client.String(), "grace", grace)
	return nil
}

// finishUnmounts drops the segments whose grace is over.
func (s *Service) finishUnmounts(ctx context.Context) {
	due := s.registry.Due(s.clock.Now())
	if len(due) == 0 || s.lockMounts(ctx, "master: finish unmounts") != nil {
		return
	}
	defer s.unlockMounts()
	for _, m := range due {
		s.drop(ctx, m, history.SegmentUnmounted)
		s.log.Info("segment unmounted, its grace is over", "segment", m.Name, "id", m.ID.String(), "client", m.Client.String())
	}
}

// Ping keeps a client alive and takes what it saw of other nodes, of clients it knows only.
func (s *Service) Ping(ctx context.Context, client model.ClientID, report model.PingReport) (model.PingReply, error) {
	const op = "master: ping"
	err := s.admitNode(ctx, op, 0)
	if err == nil && len(report.Peers) > maxPeers {
		err = errs.New(errs.InvalidParams, op, "it reports on %d peers; the most is %d", len(report.Peers), maxPeers)
	}
	s.counters.Ping.Done(err != nil)
	if err != nil {
		return model.PingReply{}, err
	}
	now := s.clock.Now()
	reply := model.PingReply{Clock: s.shown(), Status: model.ClientOK, ViewVersion: s.leads.View(), Epoch: s.epoch.Load(), Tiers: s.cfg.Tiers}
	if !s.clients.Pinged(client, now, min(report.Quiet, s.cfg.PutReleaseTimeout), report.PutsSince) {
		reply.Status = model.ClientNeedRemount
		return reply, nil
	}
	s.health.Report(client, report, now)
	s.numberSince(report.PutsSince)
	return reply, nil
}

// shown is what the clock of this master shows, by which its grants end.
func (s *Service) shown() model.Clock {
	return model.Clock{ID: s.clockID, Shown: time.Duration(s.clock.Now())}
}

// farthest is how far ahead of the clock an epoch may be of which a client speaks.
const farthest = 30 * 24 * time.Hour

// numberSince makes the numbers of puts begin at an epoch, which a client has said to be the first one for which it writes:
// the clock of this master may be behind that of the one before, and the client would not write.
func (s *Service) numberSince(epoch uint64) {
	if epoch > s.epoch.Load() && epoch < uint64(time.Now().Add(farthest).UnixMilli()) {
		s.table.NumberFrom(model.FirstPut(epoch))
	}
}

// maxPeers bounds the reports of one ping.
const maxPeers = 1 << 14

// QueryHosts returns the hosts of the segments of those clients that have any.
func (s *Service) QueryHosts(ctx context.Context, clients []model.ClientID) (map[model.ClientID][]string, error) {
	const op = "master: query hosts"
	if err := s.admit(ctx, op, len(clients)); err != nil {
		return nil, err
	}
	asked := make(map[model.ClientID]bool, len(clients))
	for _, c := range clients {
		asked[c] = true
	}
	out := map[model.ClientID][]string{}
	for _, m := range s.registry.View().All {
		if host := hostOf(m.Endpoint); asked[m.Client] && !slices.Contains(out[m.Client], host) {
			out[m.Client] = append(out[m.Client], host)
		}
	}
	s.counters.QueryHosts.Done(len(asked), len(asked)-len(out))
	return out, nil
}

// hostOf is the host of an endpoint, without a port and without the brackets of IPv6.
func hostOf(endpoint string) string {
	if host, _, err := net.SplitHostPort(endpoint); err == nil {
		return host
	}
	return strings.Trim(endpoint, "[]")
}

func (s *Service) lockMounts(ctx context.Context, op string) error {
	select {
	case s.mounting <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errs.Wrap(errs.RPCTimeout, op, ctx.Err())
	}
}

func (s *Service) unlockMounts() { <-s.mounting }

// ReplayAlloc tells a restarted allocator every mounted segment and every live extent. The
// plugin's supervisor calls it with the new instance before it lets the master's own calls
// through again; those must fail meanwhile, not wait. An error means that the instance must not
// be used: it would give memory out twice.
func (s *Service) ReplayAlloc(ctx context.Context, a alloc.Allocator) error {
	live := func(yield func([]segments.Extent) error) error {
		var extents []segments.Extent
		for at, more := objects.Cursor(0), true; more; more = at != 0 {
			extents, at = s.table.Extents(at, extents[:0])
			if err := yield(extents); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.lockMounts(ctx, "master: replay allocator"); err != nil {
		return err
	}
	for _, m := range s.mirrors { // Their spaces are not in the registry. Their nodes report again.
		s.dropMirror(ctx, m)
	}
	s.unlockMounts()
	if err := s.pool.Replay(ctx, a, s.registry.View, live); err != nil {
		return err
	}
	s.log.Info("allocator resynced", "segments", len(s.registry.View().All), "objects", s.table.Len())
	return nil
}

// ReplayEvict tells a restarted eviction policy every object that may be evicted, least recently
// used first. The plugin's supervisor calls it with the new instance before it lets the master's
// own calls through again.
func (s *Service) ReplayEvict(ctx context.Context, p evict.Policy) error {
	if err := s.evictor.Replay(ctx, p); err != nil {
		return err
	}
	s.log.Info("eviction policy resynced", "objects", s.table.Readable())
	return nil
}
