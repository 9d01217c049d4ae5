package transporttest_test

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// lax are grants that ask others otherwise.
type lax struct {
	transport.Grants
	check func(g *transport.Grant, by transport.Subject, kind transport.OpKind, offset, size uint64) transport.Verdict
}

func (l lax) Check(g *transport.Grant, by transport.Subject, kind transport.OpKind, offset, size uint64) transport.Verdict {
	return l.check(g, by, kind, offset, size)
}

// allowing bends the grants of the regions of a transport.
func allowing(bend func(transport.Grants) transport.Grants) func(*bent) {
	return func(b *bent) {
		b.register = func(ctx context.Context, r transport.Region) (transport.Key, error) {
			if r.Grants != nil {
				r.Grants = bend(r.Grants)
			}
			return b.Transport.Register(ctx, r)
		}
	}
}

// grantBugs are bugs of transports with CapGrants.
func grantBugs() map[string]bug {
	found := []string{"grants of a region"}
	asks := func(check func(of transport.Grants, g *transport.Grant, by transport.Subject, kind transport.OpKind, offset, size uint64) transport.Verdict) func(*bent) {
		return allowing(func(of transport.Grants) transport.Grants {
			return lax{of, func(g *transport.Grant, by transport.Subject, kind transport.OpKind, offset, size uint64) transport.Verdict {
				return check(of, g, by, kind, offset, size)
			}}
		})
	}
	return map[string]bug{
		"grants are not asked": {bend: allowing(func(transport.Grants) transport.Grants { return nil }), finds: found, says: "must not succeed"},
		"grants are asked about the first byte": {bend: asks(func(of transport.Grants, g *transport.Grant, by transport.Subject, kind transport.OpKind, offset, _ uint64) transport.Verdict {
			return of.Check(g, by, kind, offset, 1)
		}), finds: found, says: "must not succeed"},
		"grants are asked about reads only": {bend: asks(func(of transport.Grants, g *transport.Grant, by transport.Subject, kind transport.OpKind, offset, size uint64) transport.Verdict {
			if kind == transport.Write {
				return transport.GrantGood
			}
			return of.Check(g, by, kind, offset, size)
		}), finds: found, says: "must not succeed"},
		"an operation without a grant passes": {bend: asks(func(of transport.Grants, g *transport.Grant, by transport.Subject, kind transport.OpKind, offset, size uint64) transport.Verdict {
			if g == nil {
				return transport.GrantGood
			}
			return of.Check(g, by, kind, offset, size)
		}), finds: found, says: "must not succeed"},
		"what grants refuse may be tried again": {bend: completes(func(c *transport.Completion) {
			if code := errs.CodeOf(c.Err); code == errs.IllegalClient || code == errs.LeaseExpired {
				c.Err = errs.WithClass(errs.ClassTransientPeer, "transfer", errs.New(code, "", "try again"))
			}
		}), finds: found, says: "fail with class permanent"},
	}
}
