package convert

import (
	"unicode/utf8"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// ToCaller says who asks.
func ToCaller(c model.Caller) *masterv1.Caller {
	return &masterv1.Caller{Client: ToUUID(c.Client), Tenant: c.Tenant, Upstream: c.Upstream}
}

// FromCaller returns who asks.
func FromCaller(c *masterv1.Caller) model.Caller {
	return model.Caller{Client: FromUUID(c.GetClient()), Tenant: c.GetTenant(), Upstream: c.GetUpstream()}
}

// called is a request that says who asks.
type called interface{ GetCaller() *masterv1.Caller }

// CheckCaller refuses the name of a tenant that cannot be sent as it is: put right, it
// could become the name of another one.
func CheckCaller(req any) error {
	c, ok := req.(called)
	if !ok {
		return nil
	}
	return CheckText("tenant", c.GetCaller().GetTenant())
}

// CheckText refuses texts that are no names: too long, or not UTF-8.
func CheckText(what string, texts ...string) error {
	for _, s := range texts {
		switch {
		case len(s) > rpc.MaxTextBytes:
			return errs.New(errs.InvalidParams, "master: "+what, "%q... has %d bytes; the most is %d", s[:32], len(s), rpc.MaxTextBytes)
		case !utf8.ValidString(s):
			return errs.New(errs.InvalidParams, "master: "+what, "%q is not UTF-8", s)
		}
	}
	return nil
}

// CheckCount refuses a list that is longer than any client needs.
func CheckCount(what string, n, most int) error {
	if n > most {
		return errs.New(errs.InvalidParams, "master: "+what, "there are %d of them; the most is %d", n, most)
	}
	return nil
}

// CheckItems refuses a batch that is larger than any client of ours sends.
func CheckItems(n int) error {
	if n > rpc.MaxItems {
		return errs.New(errs.InvalidParams, "master: batch", "it has %d items; at most %d are taken in one call", n, rpc.MaxItems)
	}
	return nil
}
