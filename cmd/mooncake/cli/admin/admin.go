// Package admin has the verbs that ask the admin port of a master: admin and why.
package admin

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/ha/open"
	"github.com/mooncake-go/mooncake/core/master/metrics"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// verbs makes the commands of this package. Its fields are their common flags.
type verbs struct {
	*command.Env
	address string // of the admin port, for scripts of earlier releases; otherwise the pool names it
	timeout time.Duration
	format  output.Format
}

func (e *verbs) register(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	config.RegisterPoolFlags(f)
	f.StringVar(&e.address, "admin_address", "", "host:port of the master's admin port")
	f.Lookup("admin_address").Hidden = true
	f.DurationVar(&e.timeout, "timeout", 10*time.Second, "limit for each answer of the master")
	output.Flag(f, &e.format, "", output.Text, output.JSON)
}

// ask calls do with a client of the admin port. The context ends when the user interrupts.
func (e *verbs) ask(cmd *cobra.Command, do func(context.Context, *rest.Client) error) error {
	if e.timeout <= 0 {
		return command.Usagef("--timeout is %s, must be above 0", e.timeout)
	}
	ctx, stop := command.UntilInterrupted(cmd.Context())
	defer stop()
	pool, err := config.LoadPool(cmd.Flags(), e.Environ)
	if err != nil {
		return command.Usage(err)
	}
	address, err := e.find(ctx, cmd, pool)
	if err != nil {
		return err
	}
	c, err := rest.Connect(pool.Security, address, e.timeout)
	if err != nil {
		return command.Usage(err)
	}
	defer c.Close()
	return do(ctx, c)
}

// find returns the address of the admin port of the master that leads.
func (e *verbs) find(ctx context.Context, cmd *cobra.Command, pool config.Pool) (string, error) {
	if e.address == "" {
		ctx, cancel := context.WithTimeout(ctx, e.timeout)
		defer cancel()
		leader, err := open.Leader(ctx, pool.Master, pool.Cluster, open.FromConfig(pool.Store, pool.Security, nil))
		if err != nil {
			return "", err
		}
		host, _, err := net.SplitHostPort(leader)
		if err != nil {
			return "", errs.Wrap(errs.InvalidParams, "the leader's address", err)
		}
		return net.JoinHostPort(host, strconv.Itoa(pool.AdminPort)), nil
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "warning: --admin_address is deprecated: name the pool with --master HOST:PORT, and its admin port with --metrics_port if that is not 9003")
	return e.address, nil
}

// show writes v as JSON, or as text does.
func show[T any](e *verbs, v T, text func(io.Writer, T)) error {
	return output.Print(e.Stdout, e.format, v, func(w io.Writer) { text(w, v) })
}

// answer makes the RunE of a verb that shows the answer to one call.
func answer[T any](e *verbs, call func(context.Context, *rest.Client, []string) (T, error), text func(io.Writer, T)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return e.ask(cmd, func(ctx context.Context, c *rest.Client) error {
			v, err := call(ctx, c, args)
			if err != nil {
				return err
			}
			return show(e, v, text)
		})
	}
}

// New makes the verb admin and the verbs below it.
func New(env *command.Env) *cobra.Command {
	e := &verbs{Env: env}
	cmd := command.Group(&cobra.Command{
		Use:   "admin",
		Short: "Show and change a running pool: segments, tiers, drains, tenants, tasks",
		Long: `Uses the admin port of a running master. Unless security.mode is mtls, every process that
reaches the port can do all of this. With mtls it takes the certificate of an operator, or
with --token-file the bearer token of one. Name the pool as for a client: with --master, with
MOONCAKE_MASTER, or in a configuration file.`,
		Example: `  mooncake admin segments
  mooncake admin drain start 10.0.0.7:12300 --wait
  mooncake admin tenants set team-a 200GB --master 10.0.0.1:50051`,
	}, e.segmentsCmd(), e.tiersCmd(), e.summaryCmd(), e.drainCmd(), e.tenantsCmd(), e.tasksCmd(), e.removeAllCmd())
	e.register(cmd)
	return cmd
}

func (e *verbs) segmentsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "segments",
		Short: "List the segments, how full they are, and how the master rates them",
		Long: `Lists every mounted segment, and those whose node is silent (ABSENT): what lies there is
unreadable, and there again when the node returns. USED has what unfinished puts take
(WRITING) and what is held back because a writer that was given up or a last reader may still
use it (HELD). ADOPTED counts the objects that the master took over from the ledger of the
segment when it started. KEPT BY is what keeps the memory when the process of the store ends. WEIGHT is the share of new objects that a segment gets in comparison
with a healthy one. It falls at once when the node is silent, slow or fails transfers, and
recovers gradually. UNTIL is the time at which a graceful unmount becomes final. Storage tiers
follow in a table of their own, which 'mooncake admin tiers' shows alone.`,
		Example: `  mooncake admin segments
  mooncake admin segments -o json`,
		Args: command.NoArgs,
		RunE: answer(e, func(ctx context.Context, c *rest.Client, _ []string) ([]rest.Segment, error) { return c.Segments(ctx) }, writeSegments),
	}
}

func writeSegments(w io.Writer, list []rest.Segment) {
	memory, tiers := split(list)
	if len(list) == 0 {
		fmt.Fprintln(w, "no segment is mounted; start a store: mooncake store")
		return
	}
	t := output.NewColumns("SEGMENT", "STATUS", "USED", "SIZE", "FULL", "WRITING", "HELD", "ADOPTED", "KEPT BY", "WEIGHT", "PROTOCOL", "UNTIL")
	for _, s := range memory {
		t.Row(strconv.Quote(s.Name), status(&s), metrics.Bytes(s.Used), metrics.Bytes(s.Size), full(&s),
			metrics.Bytes(s.Writing), metrics.Bytes(s.Held), strconv.FormatUint(s.Adopted, 10), s.Keeper, fmt.Sprintf("%.2f", s.Weight), s.Protocol, when(s.Deadline))
	}
	_ = t.Write(w) // The writer keeps the error.
	if len(tiers) > 0 {
		fmt.Fprintln(w)
		writeTiers(w, tiers)
	}
}

func status(s *rest.Segment) string {
	if s.AbsentSince != nil {
		return "ABSENT"
	}
	return s.Status
}

func full(s *rest.Segment) string {
	if s.Size == 0 {
		return "0.0%"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(s.Used)/float64(s.Size))
}

func when(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339)
}

func (e *verbs) summaryCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "summary",
		Short: "Show what the pool holds now and what it has done since the master started",
		Example: `  mooncake admin summary
  mooncake admin summary -o json`,
		Args: command.NoArgs,
		RunE: answer(e, func(ctx context.Context, c *rest.Client, _ []string) (rest.Figures, error) { return c.Figures(ctx) }, writeFigures),
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
	if size := now["tier_capacity_bytes"]; size > 0 {
		fmt.Fprintf(w, "tiers      %s of %s (%s)\n", bytes(now["tier_used_bytes"]), bytes(size), share(now["tier_used_bytes"], size))
	}
	fmt.Fprintf(w, "objects    %.0f, %.0f readable, %.0f softly pinned\n", now["keys"], now["readable_keys"], now["soft_pinned_keys"])
	fmt.Fprintf(w, "clients    %.0f\n", now["clients"])
	fmt.Fprintf(w, "reads      %.0f keys, %s found\n", total["keys_read"], share(total["keys_hit"], total["keys_read"]))
	fmt.Fprintf(w, "evicted    %.0f objects, %s\n", total["evicted_keys"], bytes(total["evicted_bytes"]))
	fmt.Fprintf(w, "no space   %.0f puts\n", total["allocations_failed"])
	fmt.Fprintf(w, "tasks      %.0f pending, %.0f in progress\n", now["tasks_pending"], now["tasks_processing"])
}

func (e *verbs) removeAllCmd() *cobra.Command {
	var tenant string
	var force, yes bool
	cmd := &cobra.Command{
		Use:   "remove-all",
		Short: "Remove every object of the pool, or of one tenant",
		Long: `Removes every object that no client is reading. With --force it also removes objects that are
being read; their readers get a miss. The objects cannot be restored, so --yes is required.`,
		Example: `  mooncake admin remove-all --yes
  mooncake admin remove-all --tenant team-a --force --yes`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes {
				return command.Usagef("this removes the objects permanently; give --yes to confirm")
			}
			return e.ask(cmd, func(ctx context.Context, c *rest.Client) error {
				n, err := c.RemoveAll(ctx, tenant, force)
				if err != nil {
					return err
				}
				return show(e, map[string]int{"removed": n}, func(w io.Writer, _ map[string]int) { fmt.Fprintf(w, "removed %d\n", n) })
			})
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "only this tenant's objects (default: all tenants)")
	cmd.Flags().BoolVar(&force, "force", false, "also remove objects that are being read")
	cmd.Flags().BoolVar(&yes, "yes", false, "confirm the removal")
	return cmd
}
