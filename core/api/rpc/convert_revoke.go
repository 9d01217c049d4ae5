package rpc

import (
	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func wirePutRevoke(caller model.Caller, items []model.RevokeItem) *masterv1.PutRevokeRequest {
	out := &masterv1.PutRevokeRequest{Caller: wireCaller(caller)}
	for i := range items {
		keys, puts := &out.Keys, &out.Puts
		if items[i].Quarantined {
			keys, puts = &out.QuarantinedKeys, &out.QuarantinedPuts
		}
		*keys, *puts = append(*keys, keyAsBytes(items[i].Key)), append(*puts, items[i].Put)
	}
	return out
}

// goPutRevoke returns the items in the order of the answer: those in quarantine come last.
func goPutRevoke(in *masterv1.PutRevokeRequest) ([]model.RevokeItem, error) {
	plain, doubted := len(in.GetKeys()), len(in.GetQuarantinedKeys())
	if err := checkItems(plain + doubted); err != nil {
		return nil, err
	}
	items := make([]model.RevokeItem, 0, plain+doubted)
	for _, c := range []struct {
		keys        [][]byte
		puts        []uint64
		quarantined bool
	}{{in.GetKeys(), in.GetPuts(), false}, {in.GetQuarantinedKeys(), in.GetQuarantinedPuts(), true}} {
		puts, err := putsOf(c.puts, len(c.keys))
		if err != nil {
			return nil, err
		}
		for i, k := range keyStrings(c.keys) {
			items = append(items, model.RevokeItem{Key: k, Put: puts(i), Quarantined: c.quarantined})
		}
	}
	return items, nil
}

// wireRevoked answers with the error of each item of a request.
func wireRevoked(in *masterv1.PutRevokeRequest, each []error) *masterv1.PutRevokeResponse {
	return &masterv1.PutRevokeResponse{
		Errors:      itemErrors(len(each), func(i int) error { return each[i] }),
		Quarantined: uint32(len(in.GetQuarantinedKeys())),
	}
}

// goRevoked returns the answer to each item in the order of the items. A master that does
// not know the quarantine has left those in it alone: NotSupported.
func goRevoked(items []model.RevokeItem, out *masterv1.PutRevokeResponse) ([]error, error) {
	got, err := goErrors(nil, len(items), out.GetErrors())
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
		return nil, malformed("%d puts in quarantine of %d", known, len(items)-plain)
	}
	each, at, doubted := make([]error, len(items)), 0, plain
	for i := range items {
		switch {
		case !items[i].Quarantined:
			each[i] = got[at]
			at++
		case known == 0:
			each[i] = errs.WithHint(errs.New(errs.NotSupported, "master: put revoke", "it cannot keep the memory of a put in quarantine"), "run the same release on both sides")
		default:
			each[i] = got[doubted]
			doubted++
		}
	}
	return each, nil
}
