package rpc

import (
	"math"
	"time"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
)

func wireCaller(c model.Caller) *masterv1.Caller {
	return &masterv1.Caller{Client: wireUUID(c.Client), Tenant: text(c.Tenant)}
}

func goCaller(c *masterv1.Caller) model.Caller {
	return model.Caller{Client: goUUID(c.GetClient()), Tenant: c.GetTenant()}
}

func wireMillis(d time.Duration) uint64 { return uint64(max(d, 0) / time.Millisecond) }

func goMillis(ms uint64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
}

func wirePeerReport(r model.PeerReport) *masterv1.PeerReport {
	return &masterv1.PeerReport{
		Endpoint: text(r.Endpoint), Done: r.Done, Failed: r.Failed, Bytes: r.Bytes, BusyUs: uint64(max(r.Busy, 0) / time.Microsecond),
	}
}

func goPeerReport(r *masterv1.PeerReport) model.PeerReport {
	return model.PeerReport{
		Endpoint: r.GetEndpoint(), Done: r.GetDone(), Failed: r.GetFailed(), Bytes: r.GetBytes(),
		Busy: time.Duration(min(r.GetBusyUs(), math.MaxInt64/uint64(time.Microsecond))) * time.Microsecond,
	}
}
