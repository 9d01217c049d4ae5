package objects

import (
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/model"
)

// View is an object as it is now.
type View struct {
	Size     uint64
	Checksum model.Checksum
	DataType model.DataType
	Group    string
	Creator  model.ClientID
	Reader   model.ClientID
	Complete bool
	HardPin  bool
	Copying  bool
	// Since is when the put began, or, of a complete object, ended.
	Since lease.Instant
	// Lease, Probe and PinEnd are until when each protects it.
	Lease, Probe, PinEnd lease.Instant
	Replicas             []model.Replica
}

// Look returns what the table knows of a key and changes nothing.
func (t *Table) Look(key string) (View, bool) {
	_, s, o := t.open(key)
	defer s.mu.Unlock()
	if o == nil || !o.alive() {
		return View{}, false
	}
	status := model.ReplicaProcessing
	if o.has(complete) {
		status = model.ReplicaComplete
	}
	v := View{
		Size: o.size(), Checksum: o.checksum(), DataType: o.dataType(),
		Group: o.group(), Creator: t.clients.id(o.creator()), Reader: t.clients.id(o.reader()),
		Complete: o.has(complete), HardPin: o.has(hardPin), Copying: o.copying(),
		Since: o.since, Lease: o.leaseEnd(), Probe: o.probeEnd(), Replicas: o.describe(nil, status),
	}
	if o.has(softPin) {
		v.PinEnd = o.more.pinEnd
	}
	return v, true
}
