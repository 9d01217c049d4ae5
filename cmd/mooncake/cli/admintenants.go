package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/master/metrics"
)

func (e *env) adminTenantsCmd(a *adminFlags) *cobra.Command {
	return command.Group(&cobra.Command{
		Use:   "tenants",
		Short: "List tenants and their quotas, set or take away a quota",
		Long: `Needs a master with enable_multi_tenants. A tenant without a quota may not write.
Where quotas add up to more than the pool has, each tenant gets the same share of its own.`,
		Example: `  mooncake admin tenants list
  mooncake admin tenants set team-a 200GB`,
	}, e.tenantsListCmd(a), e.tenantsSetCmd(a), e.tenantsDeleteCmd(a))
}

func (e *env) tenantsListCmd(a *adminFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the tenants, what they may use and what they use",
		Long: `EFFECTIVE is what the capacity allows of QUOTA: where the quotas of all tenants exceed the
capacity, every one shrinks by the same factor.`,
		Example: `  mooncake admin tenants list
  mooncake admin tenants list -o json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.ask(cmd, func(ctx context.Context, c *rest.Client) error {
				list, err := c.Quotas(ctx)
				if err != nil {
					return err
				}
				return e.show(a, list, func(w io.Writer) { writeQuotas(w, list) })
			})
		},
	}
}

func writeQuotas(w io.Writer, list []rest.Quota) {
	t := output.NewColumns("TENANT", "QUOTA", "EFFECTIVE", "USED", "NOTES")
	for _, q := range list {
		notes := ""
		switch {
		case q.AdmissionClosed:
			notes = "may write no more: taken out of the policy"
		case q.OverQuota:
			notes = "over its quota"
		case !q.ExplicitPolicy:
			notes = "not in the policy"
		}
		t.Row(strconv.Quote(q.Tenant), metrics.Bytes(q.Requested), metrics.Bytes(q.Effective), metrics.Bytes(q.Charged), notes)
	}
	_ = t.Write(w) // The writer keeps the error.
}

func (e *env) tenantsSetCmd(a *adminFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "set TENANT SIZE",
		Short:   "Register a tenant or change its quota",
		Example: "  mooncake admin tenants set team-a 200GB",
		Args:    command.Args(2, 2, "a tenant and a size"),
		RunE: func(cmd *cobra.Command, args []string) error {
			size, err := config.ParseSize(args[1])
			if err != nil {
				return command.Usagef("the quota %q %w", args[1], err)
			}
			if uint64(size) > math.MaxInt64 {
				return command.Usagef("%s is too large; the most is %d bytes", args[1], int64(math.MaxInt64))
			}
			return a.ask(cmd, func(ctx context.Context, c *rest.Client) error {
				q, err := c.SetQuota(ctx, args[0], int64(size))
				if err != nil {
					return err
				}
				return e.show(a, q, func(w io.Writer) { writeQuotas(w, []rest.Quota{q}) })
			})
		},
	}
}

func (e *env) tenantsDeleteCmd(a *adminFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "delete TENANT",
		Short:   "Take a tenant out, which must have no objects",
		Example: "  mooncake admin tenants delete team-a",
		Args:    command.Args(1, 1, "one tenant"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ask(cmd, func(ctx context.Context, c *rest.Client) error {
				if err := c.DeleteQuota(ctx, args[0]); err != nil {
					return err
				}
				return e.show(a, map[string]string{"deleted": args[0]}, func(w io.Writer) { fmt.Fprintf(w, "deleted %q\n", args[0]) })
			})
		},
	}
}
