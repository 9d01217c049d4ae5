package admin

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

func (e *verbs) tenantsCmd() *cobra.Command {
	return command.Group(&cobra.Command{
		Use:   "tenants",
		Short: "List tenants and their quotas, set or delete a quota",
		Long: `Requires a master with enable_multi_tenants. A tenant without a quota cannot write. If the
quotas exceed the capacity of the pool, each tenant gets the same share of its quota.`,
		Example: `  mooncake admin tenants list
  mooncake admin tenants set team-a 200GB`,
	}, e.tenantsListCmd(), e.tenantsSetCmd(), e.tenantsDeleteCmd())
}

func (e *verbs) tenantsListCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the tenants with their quotas and usage",
		Long: `EFFECTIVE is the part of QUOTA that the capacity allows: if the quotas of all tenants exceed
the capacity, each shrinks by the same factor.`,
		Example: `  mooncake admin tenants list
  mooncake admin tenants list -o json`,
		Args: command.NoArgs,
		RunE: answer(e, func(ctx context.Context, c *rest.Client, _ []string) ([]rest.Quota, error) { return c.Quotas(ctx) }, writeQuotas),
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

func (e *verbs) tenantsSetCmd() *cobra.Command {
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
			return e.ask(cmd, func(ctx context.Context, c *rest.Client) error {
				q, err := c.SetQuota(ctx, args[0], int64(size))
				if err != nil {
					return err
				}
				return show(e, q, func(w io.Writer, q rest.Quota) { writeQuotas(w, []rest.Quota{q}) })
			})
		},
	}
}

func (e *verbs) tenantsDeleteCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "delete TENANT",
		Short:   "Delete a tenant that has no objects",
		Example: "  mooncake admin tenants delete team-a",
		Args:    command.Args(1, 1, "one tenant"),
		RunE: answer(e, func(ctx context.Context, c *rest.Client, args []string) (map[string]string, error) {
			return map[string]string{"deleted": args[0]}, c.DeleteQuota(ctx, args[0])
		}, func(w io.Writer, v map[string]string) { fmt.Fprintf(w, "deleted %q\n", v["deleted"]) }),
	}
}
