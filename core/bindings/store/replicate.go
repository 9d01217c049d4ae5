package store

import (
	"math"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Replicate configures the placement of objects. The zero value places one replica on any segment,
// except that ReplicaNum must be set.
type Replicate struct {
	ReplicaNum, NoFReplicaNum, DFSReplicaNum uint64
	SoftPinAction                            int32
	SoftPinTTL                               *uint64 // milliseconds
	HardPin, PreferNode                      bool
	DataType                                 int32
	GroupIDs                                 []string // one for each key
	HasGroupIDs                              bool
	PreferredSegments                        []string
}

// maxTTL is the longest soft pin, in milliseconds: the range of time.Duration.
const maxTTL = uint64(math.MaxInt64 / int64(time.Millisecond))

// config checks r and converts it, for a put of n keys.
func (r *Replicate) config(n int, mayPreferNode bool) (cfg model.ReplicateConfig, err error) {
	const op = "replicate config"
	bad := func(format string, args ...any) (model.ReplicateConfig, error) {
		return cfg, errs.New(errs.InvalidParams, op, format, args...)
	}
	switch {
	case r.NoFReplicaNum != 0:
		return bad("nof_replica_num is %d; there is no NVMe-oF memory in this version, it must be 0", r.NoFReplicaNum)
	case r.DFSReplicaNum != 0:
		return bad("dfs_replica_num is %d; there is no distributed file system in this version, it must be 0", r.DFSReplicaNum)
	case r.ReplicaNum < 1 || r.ReplicaNum > math.MaxUint32:
		return bad("replica_num is %d; it must be from 1 to %d", r.ReplicaNum, uint32(math.MaxUint32))
	case r.PreferNode && !mayPreferNode:
		return bad("prefer_alloc_in_same_node goes with puts from several buffers only")
	case r.HasGroupIDs && len(r.GroupIDs) != n:
		return bad("%d group_ids came with %d keys", len(r.GroupIDs), n)
	case r.SoftPinAction < 0 || r.SoftPinAction > int32(model.SoftPinDisable):
		return bad("soft_pin_action is %d; it must be PRESERVE (0), ENABLE (1) or DISABLE (2)", r.SoftPinAction)
	case r.SoftPinTTL != nil && r.SoftPinAction != int32(model.SoftPinEnable):
		return bad("soft_pin_ttl_ms goes with soft_pin_action ENABLE only")
	case r.DataType < int32(model.DataUnknown) || r.DataType > int32(model.DataGeneral):
		return bad("data_type is %d; it must be from 0 to %d", r.DataType, model.DataGeneral)
	}
	cfg = model.ReplicateConfig{
		ReplicaNum: uint32(r.ReplicaNum), PreferredSegments: r.PreferredSegments, SameNode: r.PreferNode, HardPin: r.HardPin,
		SoftPin: model.SoftPin{Action: model.SoftPinAction(r.SoftPinAction)}, DataType: model.DataType(r.DataType),
	}
	if r.SoftPinTTL != nil {
		ttl := time.Duration(min(*r.SoftPinTTL, maxTTL)) * time.Millisecond
		cfg.SoftPin.TTL = &ttl
	}
	return cfg, nil
}
