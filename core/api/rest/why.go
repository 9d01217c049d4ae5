package rest

import (
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
)

// Story is what the master can say about a key.
type Story struct {
	Key    string `json:"key"`
	Tenant string `json:"tenant_id"`
	// Fate is readable, writing, evicted, removed, lost, revoked, overdue, damaged,
	// replaced, absent or unknown.
	Fate   string     `json:"fate"`
	When   *time.Time `json:"when"`
	Reason string     `json:"reason"`
	// Since is how far back the master remembers keys that are gone.
	Since *time.Time `json:"remembers_since"`
	// Object is nil for what is not there.
	Object *StoryObject `json:"object"`
}

// StoryObject is an object that is there.
type StoryObject struct {
	Size     uint64 `json:"size_bytes"`
	Checksum string `json:"checksum"` // "crc32c:0x0123abcd", or "none"
	DataType int32  `json:"data_type"`
	Group    string `json:"group"`
	Creator  string `json:"creator"`
	// How much longer it is protected, in milliseconds: by reads, by lookups, by its soft
	// pin.
	LeaseLeft   int64          `json:"lease_left_ms"`
	ProbeLeft   int64          `json:"probe_left_ms"`
	SoftPinLeft int64          `json:"soft_pin_left_ms"`
	HardPin     bool           `json:"hard_pin"`
	LastReader  *string        `json:"last_reader"`
	LastRead    *time.Time     `json:"last_read"`
	Copying     bool           `json:"copying"`
	Replicas    []StoryReplica `json:"replicas"`
}

// StoryReplica is one copy.
type StoryReplica struct {
	ID     uint64      `json:"id"`
	Status string      `json:"status"`
	Size   uint64      `json:"size_bytes"`
	Parts  []StoryPart `json:"parts"`
}

// StoryPart is a piece of a copy, the whole one as a rule.
type StoryPart struct {
	Segment   string `json:"segment"`
	SegmentID string `json:"segment_id"`
	Endpoint  string `json:"endpoint"`
	Protocol  string `json:"protocol"`
	Address   string `json:"address"`
	Offset    uint64 `json:"offset"`
	Size      uint64 `json:"size_bytes"`
}

func (h *handler) why(a *asked) (Story, error) {
	key, caller := a.key(), a.tenant(a.query["tenant_id"])
	s := try(a, func() (model.Story, error) { return h.master.Why(a.Context(), caller, key) })
	return storyOf(s), a.err
}

func storyOf(s model.Story) Story {
	out := Story{Key: s.Key, Tenant: s.Tenant, Fate: s.Fate.String(), When: moment(s.When), Reason: s.Reason, Since: moment(s.Since)}
	if s.Fate != model.FateReadable && s.Fate != model.FateWriting {
		return out
	}
	o := &StoryObject{
		Size: s.Size, Checksum: checksum(s.Checksum), DataType: int32(s.DataType), Group: s.Group, Creator: s.Creator.String(),
		LeaseLeft: s.LeaseLeft.Milliseconds(), ProbeLeft: s.ProbeLeft.Milliseconds(), SoftPinLeft: s.SoftPinLeft.Milliseconds(),
		HardPin: s.HardPin, LastRead: moment(s.LastRead), Copying: s.Copying, Replicas: make([]StoryReplica, 0, len(s.Replicas)),
	}
	if !s.LastReader.IsZero() {
		name := s.LastReader.String()
		o.LastReader = &name
	}
	for i := range s.Replicas {
		o.Replicas = append(o.Replicas, replicaOf(&s.Replicas[i]))
	}
	out.Object = o
	return out
}

func replicaOf(r *model.Replica) StoryReplica {
	out := StoryReplica{ID: r.ID, Status: replicaStatus(r.Status), Size: r.Bytes()}
	for offset, p := range r.Parts {
		out.Parts = append(out.Parts, StoryPart{
			Segment: p.Segment, SegmentID: p.SegmentID.String(), Endpoint: p.Endpoint, Protocol: p.Protocol,
			Address: fmt.Sprintf("0x%x", p.Address), Offset: offset, Size: p.Size,
		})
	}
	return out
}

// replicaStatus is upstream's name of a status.
func replicaStatus(s model.ReplicaStatus) string {
	names := [...]string{"UNDEFINED", "INITIALIZED", "PROCESSING", "COMPLETE", "REMOVED", "FAILED"}
	if s < 0 || int(s) >= len(names) {
		return names[0]
	}
	return names[s]
}

func checksum(c model.Checksum) string {
	if c.CRC32C() {
		return fmt.Sprintf("crc32c:0x%08x", c.Value)
	}
	return "none"
}

// moment is nil for the zero time, and in UTC.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
