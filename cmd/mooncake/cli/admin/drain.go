package admin

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/master/metrics"
)

// jobPoll is the interval at which --wait polls a job.
const jobPoll = 500 * time.Millisecond

func (e *verbs) drainCmd() *cobra.Command {
	return command.Group(&cobra.Command{
		Use:   "drain",
		Short: "Move all objects off segments before their node is stopped",
		Long: `A drain job moves the objects of some segments to others. Meanwhile the segments take no new
objects. They stay drained if the job succeeds, and take objects again if it fails or is
canceled. 'mooncake admin segments' shows the names of segments.`,
		Example: `  mooncake admin drain start 10.0.0.7:12300 --wait
  mooncake admin drain status 7-8`,
	}, e.drainStartCmd(), e.drainStatusCmd(), e.drainCancelCmd())
}

func (e *verbs) drainStartCmd() *cobra.Command {
	var to []string
	moves := 4
	wait := false
	cmd := &cobra.Command{
		Use:   "start SEGMENT...",
		Short: "Start to empty segments",
		Example: `  mooncake admin drain start 10.0.0.7:12300
  mooncake admin drain start 10.0.0.7:12300 --to 10.0.0.8:12300 --moves 16 --wait`,
		Args: command.Args(1, -1, "the names of one segment or more"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.ask(cmd, func(ctx context.Context, c *rest.Client) error {
				id, err := c.CreateDrainJob(ctx, rest.DrainRequest{Segments: args, Targets: to, MaxConcurrency: &moves})
				if err != nil {
					return err
				}
				if wait {
					fmt.Fprintf(e.Stderr, "job %s\n", id)
					return e.waitForJob(ctx, c, id)
				}
				return show(e, map[string]string{"job_id": id}, func(w io.Writer, _ map[string]string) {
					fmt.Fprintf(w, "job %s; follow it: mooncake admin drain status %s --wait\n", id, id)
				})
			})
		},
	}
	cmd.Flags().StringSliceVar(&to, "to", nil, "segments that receive the objects (default: any other)")
	cmd.Flags().IntVar(&moves, "moves", moves, "moves in flight at a time")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the job ends; exit code 1 unless it succeeds")
	return cmd
}

func (e *verbs) drainStatusCmd() *cobra.Command {
	wait := false
	cmd := &cobra.Command{
		Use:     "status JOB",
		Short:   "Show the progress of a job",
		Example: "  mooncake admin drain status 7-8 --wait",
		Args:    command.Args(1, 1, "one job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.ask(cmd, func(ctx context.Context, c *rest.Client) error {
				if wait {
					return e.waitForJob(ctx, c, args[0])
				}
				j, err := c.DrainJob(ctx, args[0])
				if err != nil {
					return err
				}
				return show(e, j, writeJob)
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the job ends; exit code 1 unless it succeeds")
	return cmd
}

func (e *verbs) drainCancelCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "cancel JOB",
		Short:   "Cancel a job; its segments take objects again",
		Example: "  mooncake admin drain cancel 7-8",
		Args:    command.Args(1, 1, "one job"),
		RunE: answer(e, func(ctx context.Context, c *rest.Client, args []string) (map[string]string, error) {
			return map[string]string{"job_id": args[0], "status": "CANCELED"}, c.CancelDrainJob(ctx, args[0])
		}, func(w io.Writer, _ map[string]string) { fmt.Fprintln(w, "canceled") }),
	}
}

// waitForJob shows a job when it has ended. An interrupt ends the wait and not the job.
func (e *verbs) waitForJob(ctx context.Context, c *rest.Client, id string) error {
	tick := time.NewTicker(jobPoll)
	defer tick.Stop()
	for {
		j, err := c.DrainJob(ctx, id)
		if err != nil {
			return err
		}
		switch j.Name {
		case "SUCCEEDED":
			return show(e, j, writeJob)
		case "FAILED", "CANCELED":
			if err := show(e, j, writeJob); err != nil {
				return err
			}
			return &command.Quiet{Code: command.ExitFailure}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the wait for job %s was interrupted; the job continues: %w", id, ctx.Err())
		}
	}
}

func writeJob(w io.Writer, j rest.Job) {
	fmt.Fprintf(w, "job %s: %s\n", j.ID, j.Name)
	fmt.Fprintf(w, "  segments  %q\n", j.Segments)
	fmt.Fprintf(w, "  moved     %d objects, %s\n", j.Succeeded, metrics.Bytes(j.Migrated))
	fmt.Fprintf(w, "  in progress %d, blocked %d (being read, written or copied, or without space), failed %d\n", j.Active, j.Blocked, j.Failed)
	if j.Text != "" {
		fmt.Fprintf(w, "  %s\n", j.Text)
	}
}
