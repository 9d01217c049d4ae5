package rpc

import (
	"math"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func goPutStart(in *masterv1.PutStartRequest) ([]model.PutItem, model.ReplicateConfig, error) {
	cfg, err := goConfig(in.GetConfig())
	if err != nil {
		return nil, cfg, err
	}
	n := len(in.GetKeys())
	if err := checkItems(n); err != nil {
		return nil, cfg, err
	}
	if len(in.GetSizes()) != n || len(in.GetGroups()) != n && len(in.GetGroups()) != 0 {
		return nil, cfg, malformed("%d sizes and %d groups for %d keys", len(in.GetSizes()), len(in.GetGroups()), n)
	}
	if err := checkText("group", in.GetGroups()...); err != nil {
		return nil, cfg, err
	}
	items := make([]model.PutItem, n)
	for i, k := range keyStrings(in.GetKeys()) {
		items[i] = model.PutItem{Key: k, Size: in.GetSizes()[i]}
	}
	for i, g := range in.GetGroups() {
		items[i].Group = g
	}
	return items, cfg, nil
}

// checkPut refuses what cannot be sent as it is: a group that is put right could become
// another one, and a negative span none.
func checkPut(items []model.PutItem, cfg model.ReplicateConfig) error {
	if ttl := cfg.SoftPin.TTL; ttl != nil && *ttl < 0 {
		return errs.New(errs.InvalidParams, "master: put start", "the soft pin's TTL is %v", *ttl)
	}
	for i := range items {
		if err := checkText("group", items[i].Group); err != nil {
			return err
		}
	}
	return nil
}

// fillConfig makes out, an empty message, that of cfg.
func fillConfig(out *masterv1.ReplicateConfig, cfg *model.ReplicateConfig) {
	out.ReplicaNum, out.PreferredSegments = cfg.ReplicaNum, mapSlice(cfg.PreferredSegments, text)
	out.HardPin, out.DataType = cfg.HardPin, int32(cfg.DataType)
	out.Upsert, out.SameNode, out.HostId = cfg.Upsert, cfg.SameNode, text(cfg.HostID)
	out.SoftPinAction = int32(cfg.SoftPin.Action)
	if ttl := cfg.SoftPin.TTL; ttl != nil {
		ms := wireMillis(*ttl)
		out.SoftPinTtlMs = &ms
	}
}

func goConfig(in *masterv1.ReplicateConfig) (model.ReplicateConfig, error) {
	cfg := model.ReplicateConfig{
		ReplicaNum: in.GetReplicaNum(), PreferredSegments: in.GetPreferredSegments(),
		HardPin: in.GetHardPin(), DataType: model.DataType(in.GetDataType()),
		Upsert: in.GetUpsert(), SameNode: in.GetSameNode(), HostID: in.GetHostId(),
	}
	if err := checkCount("preferred segments", len(cfg.PreferredSegments), maxNames); err != nil {
		return cfg, err
	}
	if err := checkText("preferred segment", cfg.PreferredSegments...); err != nil {
		return cfg, err
	}
	if err := checkText("host", cfg.HostID); err != nil {
		return cfg, err
	}
	if a := in.GetSoftPinAction(); a < 0 || a > math.MaxUint8 {
		return cfg, malformed("soft pin action %d", a)
	}
	cfg.SoftPin.Action = model.SoftPinAction(in.GetSoftPinAction())
	if in != nil && in.SoftPinTtlMs != nil {
		ttl := goMillis(in.GetSoftPinTtlMs())
		cfg.SoftPin.TTL = &ttl
	}
	return cfg, nil
}

func goPutEnd(in *masterv1.PutEndRequest) ([]model.EndItem, error) {
	n := len(in.GetKeys())
	if err := checkItems(n); err != nil {
		return nil, err
	}
	if len(in.GetChecksumKinds()) != n || len(in.GetChecksums()) != n {
		return nil, malformed("%d checksum kinds and %d checksums for %d keys", len(in.GetChecksumKinds()), len(in.GetChecksums()), n)
	}
	puts, err := putsOf(in.GetPuts(), n)
	if err != nil {
		return nil, err
	}
	items := make([]model.EndItem, n)
	for i, k := range keyStrings(in.GetKeys()) {
		sum, err := goChecksum(in.GetChecksumKinds()[i], in.GetChecksums()[i])
		if err != nil {
			return nil, err
		}
		items[i] = model.EndItem{Key: k, Checksum: sum, Put: puts(i)}
	}
	return items, nil
}

// putsOf returns the i-th of n puts. A client that knows no puts sends no column, and means
// any.
func putsOf(column []uint64, n int) (func(int) uint64, error) {
	switch len(column) {
	case n:
		return func(i int) uint64 { return column[i] }, nil
	case 0:
		return func(int) uint64 { return 0 }, nil
	default:
		return nil, malformed("%d puts for %d keys", len(column), n)
	}
}

// goKeys returns the keys of a request.
func goKeys(in [][]byte) ([]model.Key, error) {
	if err := checkItems(len(in)); err != nil {
		return nil, err
	}
	return keyStrings(in), nil
}
