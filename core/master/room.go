package master

import (
	"context"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/core/master/evictor"
	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/metrics"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// shortage is why a put found no room.
type shortage struct {
	missing uint64
	last    evictor.Result
}

// makeRoom evicts at least need bytes where it can. It reports whether asking the
// allocator again is of use.
func (s *Service) makeRoom(ctx context.Context, why *shortage, need uint64) bool {
	need = min(need, s.registry.View().Capacity)
	why.last = s.evict(ctx, evictor.Request{Need: need, Floor: need, Soft: s.cfg.EvictSoftPinned, Why: history.EvictedForPut})
	return why.last.Keys > 0
}

// evictTenant makes space in a tenant's quota and returns how many objects went. Objects of other
// tenants stay, and keep their places in the policy's order.
func (s *Service) evictTenant(ctx context.Context, c scope, need uint64) int {
	r := evictor.Request{Need: need, Floor: need, Soft: s.cfg.EvictSoftPinned, Owner: c.tenant, Why: history.EvictedForQuota}
	return s.evict(ctx, r).Keys
}

// evict runs one eviction and counts it.
func (s *Service) evict(ctx context.Context, r evictor.Request) evictor.Result {
	began := time.Now()
	s.counters.EvictAttempts.Add(1)
	res := s.evictor.Evict(ctx, r)
	s.counters.EvictTimes.Observe(time.Since(began))
	if res.Keys > 0 {
		s.counters.EvictSuccesses.Add(1)
	}
	s.counters.EvictedKeys.Add(res.Keys)
	s.counters.EvictedBytes.AddBytes(res.Bytes)
	s.log.Debug("[EVICT-RESULT]", "wanted_bytes", r.Need, "floor_bytes", r.Floor, "freed_bytes", res.Bytes, "keys", res.Keys,
		"looked_up", res.Probed, "soft_pinned", res.Soft, "why", r.Why.Text(), "error", res.Err)
	return res
}

// evictAtWatermark evicts ahead of need when the pool is fuller than the watermark.
func (s *Service) evictAtWatermark(ctx context.Context) {
	v := s.registry.View()
	if v.Capacity == 0 || s.cfg.EvictionRatio == 0 {
		return
	}
	used := v.Used()
	over := float64(used)/float64(v.Capacity) - s.cfg.EvictionHighWatermark
	if over <= 0 {
		return
	}
	share := min(over+s.cfg.EvictionRatio, 1)
	need := uint64(share * float64(used))
	floor := uint64(max(share/2, over) * float64(used))
	s.log.Debug("[EVICT-TRIGGER]", "used_bytes", used, "capacity_bytes", v.Capacity, "target_bytes", need, "floor_bytes", floor)
	s.evict(ctx, evictor.Request{Need: max(need, 1), Floor: floor, Soft: s.cfg.EvictSoftPinned, Why: history.EvictedAtWatermark})
}

// explain is the error of a put that found no room.
func (s *Service) explain(ctx context.Context, why *shortage) error {
	v := s.registry.View()
	if v.Capacity == 0 {
		return errs.WithHint(errs.New(errs.NoAvailableHandle, opPutStart, "no segment is mounted"),
			"start a store node, or wait for one to mount again")
	}
	detail := fmt.Sprintf("the pool of %s has no room for %s more", metrics.Bytes(v.Capacity), metrics.Bytes(why.missing))
	if n := s.table.WritingBytes(); n > 0 {
		detail += fmt.Sprintf("; %s are being written", metrics.Bytes(n))
	}
	if n := s.pool.HeldBytes(); n > 0 {
		detail += fmt.Sprintf("; %s wait for a given-up writer or a last reader", metrics.Bytes(n))
	}
	hint := "try again, add a segment, or remove pinned objects"
	if l := s.evictor.Leased(ctx); l.Keys > 0 {
		left := max(l.FirstEnd.Sub(s.clock.Now()), 0).Round(time.Millisecond)
		s.counters.LeaseWaits.Observe(left)
		detail += fmt.Sprintf("; %s in %d objects are leased by readers, the first for another %s", metrics.Bytes(l.Bytes), l.Keys, left)
		hint = fmt.Sprintf("try again after %s, add a segment, or shorten the lease TTL", left)
	}
	if why.last.Err != nil {
		detail += "; eviction failed: " + why.last.Err.Error()
	}
	return errs.WithHint(errs.New(errs.NoAvailableHandle, opPutStart, "%s", detail), "%s", hint)
}
