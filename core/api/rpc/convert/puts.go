package convert

import (
	"math"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// FromPutStart returns the items and the configuration of a request.
func FromPutStart(in *masterv1.PutStartRequest) ([]model.PutItem, model.ReplicateConfig, error) {
	cfg, err := goConfig(in.GetConfig())
	if err != nil {
		return nil, cfg, err
	}
	n := len(in.GetKeys())
	if err := CheckItems(n); err != nil {
		return nil, cfg, err
	}
	if len(in.GetSizes()) != n || len(in.GetGroups()) != n && len(in.GetGroups()) != 0 {
		return nil, cfg, Malformed("%d sizes and %d groups for %d keys", len(in.GetSizes()), len(in.GetGroups()), n)
	}
	if err := CheckText("group", in.GetGroups()...); err != nil {
		return nil, cfg, err
	}
	items := make([]model.PutItem, n)
	for i, k := range FromKeys(in.GetKeys()) {
		items[i] = model.PutItem{Key: k, Size: in.GetSizes()[i]}
	}
	for i, g := range in.GetGroups() {
		items[i].Group = g
	}
	return items, cfg, nil
}

// FillPutStart makes in, whose columns may have memory and whose configuration is there, the request
// for items.
func FillPutStart(in *masterv1.PutStartRequest, items []model.PutItem, cfg *model.ReplicateConfig) {
	in.Config.Reset()
	fillConfig(in.GetConfig(), cfg)
	in.Keys, in.Sizes, in.Groups = in.Keys[:0], in.Sizes[:0], in.Groups[:0]
	grouped := false
	for i := range items {
		it := &items[i]
		in.Keys, in.Sizes, in.Groups = append(in.Keys, ToKey(it.Key)), append(in.Sizes, it.Size), append(in.Groups, it.Group)
		grouped = grouped || it.Group != ""
	}
	if !grouped {
		in.Groups = in.Groups[:0]
	}
}

// FillPutEnd makes in, whose columns may have memory, the request for items.
func FillPutEnd(in *masterv1.PutEndRequest, items []model.EndItem) {
	in.Keys, in.ChecksumKinds, in.Checksums, in.Puts = in.Keys[:0], in.ChecksumKinds[:0], in.Checksums[:0], in.Puts[:0]
	in.GrainCounts, in.Grains = fillGrains(in.GrainCounts[:0], in.Grains[:0], len(items), func(i int) []uint32 { return items[i].Grains })
	for i := range items {
		it := &items[i]
		in.Keys, in.Puts = append(in.Keys, ToKey(it.Key)), append(in.Puts, it.Put)
		in.ChecksumKinds, in.Checksums = append(in.ChecksumKinds, uint32(it.Checksum.Kind)), append(in.Checksums, it.Checksum.Value)
	}
}

// CheckPut refuses what cannot be sent as it is: a group that is put right could become
// another one, and a negative span none.
func CheckPut(items []model.PutItem, cfg model.ReplicateConfig) error {
	if ttl := cfg.SoftPin.TTL; ttl != nil && *ttl < 0 {
		return errs.New(errs.InvalidParams, "master: put start", "the soft pin's TTL is %v", *ttl)
	}
	for i := range items {
		if err := CheckText("group", items[i].Group); err != nil {
			return err
		}
	}
	return nil
}

// fillConfig makes out, an empty message, that of cfg.
func fillConfig(out *masterv1.ReplicateConfig, cfg *model.ReplicateConfig) {
	out.ReplicaNum, out.PreferredSegments = cfg.ReplicaNum, Each(cfg.PreferredSegments, Text)
	out.HardPin, out.DataType = cfg.HardPin, int32(cfg.DataType)
	out.Upsert, out.SameNode, out.HostId = cfg.Upsert, cfg.SameNode, Text(cfg.HostID)
	out.SoftPinAction = int32(cfg.SoftPin.Action)
	if ttl := cfg.SoftPin.TTL; ttl != nil {
		ms := ToMillis(*ttl)
		out.SoftPinTtlMs = &ms
	}
}

func goConfig(in *masterv1.ReplicateConfig) (model.ReplicateConfig, error) {
	cfg := model.ReplicateConfig{
		ReplicaNum: in.GetReplicaNum(), PreferredSegments: in.GetPreferredSegments(),
		HardPin: in.GetHardPin(), DataType: model.DataType(in.GetDataType()),
		Upsert: in.GetUpsert(), SameNode: in.GetSameNode(), HostID: in.GetHostId(),
	}
	if err := CheckCount("preferred segments", len(cfg.PreferredSegments), rpc.MaxNames); err != nil {
		return cfg, err
	}
	if err := CheckText("preferred segment", cfg.PreferredSegments...); err != nil {
		return cfg, err
	}
	if err := CheckText("host", cfg.HostID); err != nil {
		return cfg, err
	}
	if a := in.GetSoftPinAction(); a < 0 || a > math.MaxUint8 {
		return cfg, Malformed("soft pin action %d", a)
	}
	cfg.SoftPin.Action = model.SoftPinAction(in.GetSoftPinAction())
	if in != nil && in.SoftPinTtlMs != nil {
		ttl := FromMillis(in.GetSoftPinTtlMs())
		cfg.SoftPin.TTL = &ttl
	}
	return cfg, nil
}

// FromPutEnd returns the items of a request.
func FromPutEnd(in *masterv1.PutEndRequest) ([]model.EndItem, error) {
	n := len(in.GetKeys())
	if err := CheckItems(n); err != nil {
		return nil, err
	}
	if len(in.GetChecksumKinds()) != n || len(in.GetChecksums()) != n {
		return nil, Malformed("%d checksum kinds and %d checksums for %d keys", len(in.GetChecksumKinds()), len(in.GetChecksums()), n)
	}
	puts, err := putsOf(in.GetPuts(), n)
	if err != nil {
		return nil, err
	}
	grains, err := readGrains(n, in.GetGrainCounts(), in.GetGrains())
	if err != nil {
		return nil, err
	}
	items := make([]model.EndItem, n)
	for i, k := range FromKeys(in.GetKeys()) {
		sum, err := goChecksum(in.GetChecksumKinds()[i], in.GetChecksums()[i])
		if err != nil {
			return nil, err
		}
		items[i] = model.EndItem{Key: k, Checksum: sum, Grains: grains.next(), Put: puts(i)}
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
		return nil, Malformed("%d puts for %d keys", len(column), n)
	}
}

// FromBatch returns the keys of a request.
func FromBatch(in [][]byte) ([]model.Key, error) {
	if err := CheckItems(len(in)); err != nil {
		return nil, err
	}
	return FromKeys(in), nil
}

// ToPutRevoke returns the request for items; those in quarantine have columns of their own.
func ToPutRevoke(caller model.Caller, items []model.RevokeItem) *masterv1.PutRevokeRequest {
	out := &masterv1.PutRevokeRequest{Caller: ToCaller(caller)}
	for i := range items {
		keys, puts := &out.Keys, &out.Puts
		if items[i].Quarantined {
			keys, puts = &out.QuarantinedKeys, &out.QuarantinedPuts
		}
		*keys, *puts = append(*keys, ToKey(items[i].Key)), append(*puts, items[i].Put)
	}
	return out
}

// FromPutRevoke returns the items in the order of the answer: those in quarantine come last.
func FromPutRevoke(in *masterv1.PutRevokeRequest) ([]model.RevokeItem, error) {
	plain, quarantined := len(in.GetKeys()), len(in.GetQuarantinedKeys())
	if err := CheckItems(plain + quarantined); err != nil {
		return nil, err
	}
	items := make([]model.RevokeItem, 0, plain+quarantined)
	for _, c := range []struct {
		keys        [][]byte
		puts        []uint64
		quarantined bool
	}{{in.GetKeys(), in.GetPuts(), false}, {in.GetQuarantinedKeys(), in.GetQuarantinedPuts(), true}} {
		puts, err := putsOf(c.puts, len(c.keys))
		if err != nil {
			return nil, err
		}
		for i, k := range FromKeys(c.keys) {
			items = append(items, model.RevokeItem{Key: k, Put: puts(i), Quarantined: c.quarantined})
		}
	}
	return items, nil
}

// ToRevoked answers with the error of each item of a request.
func ToRevoked(in *masterv1.PutRevokeRequest, each []error) *masterv1.PutRevokeResponse {
	return &masterv1.PutRevokeResponse{
		Errors:      ToErrors(len(each), func(i int) error { return each[i] }),
		Quarantined: uint32(len(in.GetQuarantinedKeys())),
	}
}

// FromRevoked returns the answer to each item in the order of the items. A master that does
// not know the quarantine has left those in it alone: NotSupported.
func FromRevoked(items []model.RevokeItem, out *masterv1.PutRevokeResponse) ([]error, error) {
	got, err := FromErrors(nil, len(items), out.GetErrors())
	if err != nil {
		return nil, err
	}
	plain := 0
	for i := range items {
		if !items[i].Quarantined {
			plain++
		}
	}
	known := int(out.GetQuarantined())
	if known != 0 && known != len(items)-plain {
		return nil, Malformed("%d puts in quarantine of %d", known, len(items)-plain)
	}
	each, at, quarantined := make([]error, len(items)), 0, plain
	for i := range items {
		switch {
		case !items[i].Quarantined:
			each[i] = got[at]
			at++
		case known == 0:
			each[i] = errs.WithHint(errs.New(errs.NotSupported, "master: put revoke", "it cannot keep the memory of a put in quarantine"), "run the same release on both sides")
		default:
			each[i] = got[quarantined]
			quarantined++
		}
	}
	return each, nil
}
