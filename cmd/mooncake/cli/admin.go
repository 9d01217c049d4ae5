package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/master/metrics"
)

// adminFlags say how to reach the admin port and how to answer.
type adminFlags struct {
	environ []string
	address string // instead of what names the pool, for scripts of earlier releases
	timeout time.Duration
	format  output.Format
}

func (a *adminFlags) register(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	config.RegisterPoolFlags(f)
	f.StringVar(&a.address, "admin_address", "", "host:port of the master's admin port")
	f.Lookup("admin_address").Hidden = true
	f.DurationVar(&a.timeout, "timeout", 10*time.Second, "most time for one answer of the master")
	output.Flag(f, &a.format, "", output.Text, output.JSON)
}

// ask runs do with a client of the admin port until it is done or the user interrupts.
func (a *adminFlags) ask(cmd *cobra.Command, do func(context.Context, *rest.Client) error) error {
	if a.timeout <= 0 {
		return command.Usagef("--timeout is %s, must be above 0", a.timeout)
	}
	address, err := a.find(cmd)
	if err != nil {
		return command.Usage(err)
	}
	c, err := rest.NewClient(address, a.timeout)
	if err != nil {
		return command.Usage(err)
	}
	defer c.Close()
	ctx, stop := command.UntilInterrupted(cmd.Context())
	defer stop()
	return do(ctx, c)
}

// find returns the address of the admin port.
func (a *adminFlags) find(cmd *cobra.Command) (string, error) {
	if a.address == "" {
		return config.LoadPool(cmd.Flags(), a.environ)
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "warning: --admin_address is deprecated: name the pool with --master HOST:PORT, and its admin port with --metrics_port where that is not 9003")
	return a.address, nil
}

// show writes v as JSON, or as text does.
func (e *env) show(a *adminFlags, v any, text func(io.Writer)) error {
	return output.Print(e.Stdout, a.format, v, text)
}

func (e *env) adminCmd() *cobra.Command {
	a := &adminFlags{environ: e.Environ}
	cmd := command.Group(&cobra.Command{
		Use:   "admin",
		Short: "Look after a running pool: segments, drains, tenants, tasks",
		Long: `Asks the admin port of a running master, or has it change something. The port is not
authenticated: whoever reaches it can do all of this. The pool is named as for a client: by
--master, by MOONCAKE_MASTER, or in a configuration file.`,
		Example: `  mooncake admin segments
  mooncake admin drain start 10.0.0.7:12300 --wait
  mooncake admin tenants set team-a 200GB --master 10.0.0.1:50051`,
	}, e.adminSegmentsCmd(a), e.adminSummaryCmd(a), e.adminDrainCmd(a), e.adminTenantsCmd(a), e.adminTasksCmd(a), e.adminRemoveAllCmd(a))
	a.register(cmd)
	return cmd
}

func (e *env) adminSegmentsCmd(a *adminFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "segments",
		Short: "List the mounted segments, how full they are, and what the master thinks of them",
		Long: `Lists every mounted segment. WEIGHT is the share of new objects that a segment gets beside
a healthy one: it falls at once when its node is silent, slow or fails transfers, and comes
back gradually. UNTIL is when a graceful unmount becomes final.`,
		Example: `  mooncake admin segments
  mooncake admin segments -o json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.ask(cmd, func(ctx context.Context, c *rest.Client) error {
				list, err := c.Segments(ctx)
				if err != nil {
					return err
				}
				return e.show(a, list, func(w io.Writer) { writeSegments(w, list) })
			})
		},
	}
}

func writeSegments(w io.Writer, list []rest.Segment) {
	if len(list) == 0 {
		fmt.Fprintln(w, "no segment is mounted; start a store: mooncake store")
		return
	}
	t := output.NewColumns("SEGMENT", "STATUS", "USED", "SIZE", "FULL", "WEIGHT", "PROTOCOL", "UNTIL")
	for _, s := range list {
		full, until := 0.0, ""
		if s.Size > 0 {
			full = 100 * float64(s.Used) / float64(s.Size)
		}
		if s.Deadline != nil {
			until = s.Deadline.Format(time.RFC3339)
		}
		t.Row(strconv.Quote(s.Name), s.Status, metrics.Bytes(s.Used), metrics.Bytes(s.Size), fmt.Sprintf("%.1f%%", full), fmt.Sprintf("%.2f", s.Weight), s.Protocol, until)
	}
	_ = t.Write(w) // The writer keeps the error.
}

func (e *env) adminSummaryCmd(a *adminFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "summary",
		Short: "Say what the pool holds now and what it did since the master started",
		Example: `  mooncake admin summary
  mooncake admin summary -o json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.ask(cmd, func(ctx context.Context, c *rest.Client) error {
				f, err := c.Figures(ctx)
				if err != nil {
					return err
				}
				return e.show(a, f, func(w io.Writer) { writeFigures(w, f) })
			})
		},
	}
}

func writeFigures(w io.Writer, f rest.Figures) {
	now, total := f.Now, f.Total
	share := func(part, of float64) string {
		if of <= 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f%%", 100*part/of)
	}
	bytes := func(n float64) string { return metrics.Bytes(uint64(max(0, n))) }
	fmt.Fprintf(w, "%s, %s\n", f.Role, f.State)
	fmt.Fprintf(w, "memory     %s of %s (%s), %s held back\n", bytes(now["used_bytes"]), bytes(now["capacity_bytes"]),
		share(now["used_bytes"], now["capacity_bytes"]), bytes(now["staging_bytes"]))
	fmt.Fprintf(w, "objects    %.0f, %.0f readable, %.0f softly pinned\n", now["keys"], now["readable_keys"], now["soft_pinned_keys"])
	fmt.Fprintf(w, "clients    %.0f\n", now["clients"])
	fmt.Fprintf(w, "reads      %.0f keys, %s found\n", total["keys_read"], share(total["keys_hit"], total["keys_read"]))
	fmt.Fprintf(w, "evicted    %.0f objects, %s\n", total["evicted_keys"], bytes(total["evicted_bytes"]))
	fmt.Fprintf(w, "no room    %.0f puts\n", total["allocations_failed"])
	fmt.Fprintf(w, "tasks      %.0f wait, %.0f under way\n", now["tasks_pending"], now["tasks_processing"])
}

func (e *env) adminRemoveAllCmd(a *adminFlags) *cobra.Command {
	var tenant string
	var force, yes bool
	cmd := &cobra.Command{
		Use:   "remove-all",
		Short: "Remove every object of the pool, or of one tenant",
		Long: `Removes every object that nobody reads; with --force also what is being read, which the
readers notice as a miss. Nothing brings the objects back, so it wants --yes.`,
		Example: `  mooncake admin remove-all --yes
  mooncake admin remove-all --tenant team-a --force --yes`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes {
				return command.Usagef("this removes the objects for good; say --yes if that is what you want")
			}
			return a.ask(cmd, func(ctx context.Context, c *rest.Client) error {
				n, err := c.RemoveAll(ctx, tenant, force)
				if err != nil {
					return err
				}
				return e.show(a, map[string]int{"removed": n}, func(w io.Writer) { fmt.Fprintf(w, "removed %d\n", n) })
			})
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "only this tenant's objects (default: all tenants)")
	cmd.Flags().BoolVar(&force, "force", false, "also what is being read")
	cmd.Flags().BoolVar(&yes, "yes", false, "really do it")
	return cmd
}
