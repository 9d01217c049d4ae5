package rpc

import (
	"context"
	"unicode/utf8"

	"google.golang.org/grpc"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func wireCaller(c model.Caller) *masterv1.Caller {
	return &masterv1.Caller{Client: wireUUID(c.Client), Tenant: c.Tenant}
}

func goCaller(c *masterv1.Caller) model.Caller {
	return model.Caller{Client: goUUID(c.GetClient()), Tenant: c.GetTenant()}
}

// called is a request that says who asks.
type called interface{ GetCaller() *masterv1.Caller }

// checkCaller refuses the name of a tenant that cannot be sent as it is: put right, it
// could become the name of another one.
func checkCaller(req any) error {
	c, ok := req.(called)
	if !ok {
		return nil
	}
	return checkText("tenant", c.GetCaller().GetTenant())
}

// checkedCaller is checkCaller on the side of the server.
func checkedCaller(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := checkCaller(req); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// checkText refuses texts that are no names: too long, or not UTF-8.
func checkText(what string, texts ...string) error {
	for _, s := range texts {
		switch {
		case len(s) > maxTextBytes:
			return errs.New(errs.InvalidParams, "master: "+what, "%q... has %d bytes; the most is %d", s[:32], len(s), maxTextBytes)
		case !utf8.ValidString(s):
			return errs.New(errs.InvalidParams, "master: "+what, "%q is not UTF-8", s)
		}
	}
	return nil
}

// checkCount refuses a list that is longer than any client needs.
func checkCount(what string, n, most int) error {
	if n > most {
		return errs.New(errs.InvalidParams, "master: "+what, "there are %d of them; the most is %d", n, most)
	}
	return nil
}
