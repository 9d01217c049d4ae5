package history

import "github.com/mooncake-go/mooncake/core/model"

// Reason says why a key went.
type Reason uint8

// The reasons.
const (
	ReasonUnknown           Reason = iota
	EvictedAtWatermark             // the pool was fuller than the high watermark
	EvictedForPut                  // a put found no space
	EvictedForQuota                // a put of its tenant found the quota used up
	EvictedWithGroup               // an object of its group was evicted
	RemovedByKey                   // a caller named it
	RemovedByRegex                 // a caller's expression matched it
	RemovedWithAll                 // a caller removed everything
	RemovedDamaged                 // a reader found every copy damaged
	ClearedByOwner                 // its writer took its copies away
	SegmentUnmounted               // the segment of its last copy was unmounted
	SegmentExpired                 // the node of its last copy fell silent
	PutRevoked                     // its writer gave the put up
	PutOverdue                     // its writer took too long
	PutClientExpired               // its writer fell silent
	ReplacedByUpsert               // a new value was written
	ReplacedWhileUnfinished        // another put took the place of an overdue one
	MovedAway                      // the copy was moved and the new one lost since
	PutQuarantined                 // its writer gave the put up, and a peer may still write to its place
	PutUnconfirmed                 // its node did not say in time that all bytes had arrived
	reasons                        // how many there are
)

type meaning struct {
	fate model.Fate
	text string
}

var meanings = [reasons]meaning{
	ReasonUnknown: {model.FateUnknown, "the master does not know why"},
	EvictedAtWatermark: {model.FateEvicted, "evicted because the pool was fuller than eviction_high_watermark_ratio; " +
		"if it was needed again, mount more memory or pin what matters"},
	EvictedForPut: {model.FateEvicted, "evicted because a put found no space; " +
		"the pool fills faster than eviction at the watermark frees: mount more memory, or lower eviction_high_watermark_ratio"},
	EvictedForQuota: {model.FateEvicted, "evicted because its tenant wrote more than its quota holds; " +
		"raise the quota of the tenant if the pool has space"},
	EvictedWithGroup: {model.FateEvicted, "evicted together with another object of its group, without which it is of no use"},
	RemovedByKey:     {model.FateRemoved, "removed by a caller that named it"},
	RemovedByRegex:   {model.FateRemoved, "removed by a caller whose regular expression matched it"},
	RemovedWithAll:   {model.FateRemoved, "removed by a caller that removed everything"},
	RemovedDamaged: {model.FateDamaged, "removed because a reader found that no copy of it matched its checksum; " +
		"check the memory and the network of the nodes that held it, and put it again"},
	ClearedByOwner: {model.FateRemoved, "its writer had its copies cleared (replica clear)"},
	SegmentUnmounted: {model.FateLost, "lost when the segment that held its last copy was unmounted; " +
		"drain a segment before it is unmounted, or write more copies, to keep what it holds"},
	SegmentExpired: {model.FateLost, "lost because the node that held its last copy sent no sign of life for client_ttl; " +
		"look at that node and the network to it, or write more copies"},
	PutRevoked: {model.FateRevoked, "never readable: its writer gave the put up, as a rule because a transfer to a node failed; " +
		"the writer's log says which"},
	PutOverdue: {model.FateOverdue, "never readable: its writer did not finish within put_start_release_timeout; " +
		"look at the writer, and at the nodes it wrote to"},
	PutClientExpired: {model.FateOverdue, "never readable: its writer expired before it finished, so that its memory is held back until the writer must have stopped; " +
		"look at the writer's host"},
	ReplacedByUpsert: {model.FateReplaced, "replaced: a caller began to write a new value"},
	ReplacedWhileUnfinished: {model.FateReplaced, "never readable: its writer did not finish within put_start_discard_timeout, " +
		"and another put took its place"},
	MovedAway: {model.FateLost, "moved to another segment; that copy is gone as well"},
	PutQuarantined: {model.FateRevoked, "never readable: its writer gave the put up because the outcome of a transfer is indeterminate, as when a transport's process dies; " +
		"its memory is held back until put_start_release_timeout, and the writer's log says why"},
	PutUnconfirmed: {model.FateRevoked, "never readable: its writer ended the put, and a node that holds it did not say within a second that all bytes had arrived; " +
		"look at that node, at the writer, and at the network between them"},
}

// Fate returns what the reason makes of a key.
func (r Reason) Fate() model.Fate {
	if r >= reasons {
		r = ReasonUnknown
	}
	return meanings[r].fate
}

// Text returns what it means and, where a person can do something about it, what.
func (r Reason) Text() string {
	if r >= reasons {
		r = ReasonUnknown
	}
	return meanings[r].text
}
