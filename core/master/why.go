package master

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/model"
)

// Why tells what the master knows of a key.
func (s *Service) Why(ctx context.Context, caller model.Caller, key model.Key) (model.Story, error) {
	const op = "master: why"
	c, err := s.admitted(ctx, op, caller, 1)
	if err != nil {
		return model.Story{}, err
	}
	if err := validKey(op, key); err != nil {
		return model.Story{}, err
	}
	story := model.Story{Key: key, Tenant: c.tenant, Since: s.clock.Time(max(s.history.Oldest(), 1))}
	if v, ok := s.table.Look(c.name(key)); ok {
		s.tell(&story, v)
		return story, nil
	}
	if size, since, ok := s.table.Absent(c.name(key)); ok {
		story.Fate, story.Size, story.When = model.FateAbsent, size, s.clock.Time(since)
		story.Reason = fmt.Sprintf("its node is silent for longer than client_ttl: no client can read it now, and it is there again if the node returns within segment_retention (%s)", s.cfg.SegmentRetention)
		return story, nil
	}
	e, ok := s.history.Look(s.table.Print(c.name(key)))
	if !ok {
		story.Reason = "the master does not know this key: it was never written, or it went before the time that the master remembers"
		return story, nil
	}
	story.Fate, story.Size, story.When = e.Reason.Fate(), e.Size, s.clock.Time(e.When)
	story.Reason = e.Reason.Text()
	if e.Idle > 0 {
		story.Reason += fmt.Sprintf("; no client had read it for %s", e.Idle.Round(time.Second))
	}
	return story, nil
}

// tell describes an object that is there.
func (s *Service) tell(story *model.Story, v objects.View) {
	now := s.clock.Now()
	left := func(end lease.Instant) time.Duration { return max(end.Sub(now), 0) }
	story.Fate, story.When = model.FateReadable, s.clock.Time(v.Since)
	story.Size, story.Checksum, story.DataType, story.Creator = v.Size, v.Checksum, v.DataType, v.Creator
	story.Replicas, story.Copying, story.HardPin = v.Replicas, v.Copying, v.HardPin
	if c := (scope{tenant: story.Tenant, on: s.tenants != nil}); v.Group != "" {
		story.Group, _ = c.key(v.Group)
	}
	story.LeaseLeft, story.ProbeLeft = left(v.Lease), left(v.Probe)
	if v.PinEnd > 0 {
		story.SoftPinLeft = left(v.PinEnd)
	}
	if v.Lease > 0 {
		story.LastReader, story.LastRead = v.Reader, s.clock.Time(v.Lease-lease.Instant(s.cfg.LeaseTTL))
	}
	switch {
	case !v.Complete:
		story.Fate = model.FateWriting
		story.Reason = fmt.Sprintf("it is being written since %s; until its put ends no client can read it", now.Sub(v.Since).Round(time.Millisecond))
	case v.HardPin:
		story.Reason = "it is readable, and hard pinned: it is never evicted"
	case story.SoftPinLeft > 0:
		story.Reason = "it is readable, and softly pinned: it is evicted only when nothing else can go"
	case story.LeaseLeft > 0:
		story.Reason = "it is readable, and a reader holds a lease on it: it is not evicted before that ends"
	case story.ProbeLeft > 0:
		story.Reason = "it is readable, and was looked up a moment ago: it is evicted only when others cannot go"
	default:
		story.Reason = "it is readable, and may be evicted when its turn comes"
	}
	if v.Complete {
		story.Reason += s.tierStory(&v)
	}
	if len(v.Replicas) > 0 && v.Replicas[0].ID < model.FirstPut(s.epoch.Load()) {
		story.Reason += "; this master took it over from an earlier one"
	}
}

// tierStory says what storage tiers have of an object, empty where that does not concern it.
func (s *Service) tierStory(v *objects.View) string {
	var onTiers []string
	var memory []*model.Replica
	for i := range v.Replicas {
		r := &v.Replicas[i]
		if !r.OnTier() {
			memory = append(memory, r)
			continue
		}
		node, tier := model.SplitTier(r.Segment)
		onTiers = append(onTiers, fmt.Sprintf("%s of node %s", tier, node))
	}
	where := strings.Join(onTiers, " and ")
	switch {
	case len(onTiers) > 0 && len(memory) == 0:
		return fmt.Sprintf("; it lies on a storage tier only (%s), whose node evicts it when the tier is full", where)
	case len(onTiers) > 0:
		return fmt.Sprintf("; what is evicted is its copy in memory, since a storage tier has it as well (%s)", where)
	}
	for _, r := range memory {
		m := s.registry.Get(r.SegmentID) // Of a striped copy the node of the first stripe saves.
		switch {
		case m == nil || !m.Saves(1):
			continue
		case v.Copying:
			return "; it is not saved yet on a storage tier of its node: a copy of it is in progress"
		case !m.Saves(v.Size):
			return fmt.Sprintf("; no storage tier of its node %s takes an object of this size (offload_buffer_size of the node)", r.Segment)
		case s.table.SaveOnEvict:
			return fmt.Sprintf("; its node %s saves it on a storage tier when eviction chooses it", r.Segment)
		}
		return fmt.Sprintf("; no storage tier of its node %s has it: it waits to be saved, or was dropped, failed, or refused by tier_write_budget "+
			"(mooncake_node_tier_dropped_total, mooncake_node_tier_failed_total and mooncake_node_tier_refused_total of the node)", r.Segment)
	}
	return ""
}
