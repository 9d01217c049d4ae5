package admin

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/api/rest"
)

func (e *verbs) tasksCmd() *cobra.Command {
	return command.Group(&cobra.Command{
		Use:   "tasks",
		Short: "Copy or move individual objects between segments",
		Long: `The client that owns the source carries out the task. A store node does so by itself, within
seconds. 'mooncake admin segments' shows the names of segments.`,
		Example: `  mooncake admin tasks move page-1 --from 10.0.0.7:12300 --to 10.0.0.8:12300
  mooncake admin tasks status 4-4`,
	}, e.taskCreateCmd("copy"), e.taskCreateCmd("move"), e.taskStatusCmd())
}

func (e *verbs) taskCreateCmd(kind string) *cobra.Command {
	req := rest.TaskRequest{Kind: kind}
	cmd := &cobra.Command{
		Use:     "copy KEY",
		Short:   "Copy an object to more segments",
		Example: "  mooncake admin tasks copy page-1 --to 10.0.0.8:12300,10.0.0.9:12300",
		Args:    command.Keys(1, 1, "one key"),
		RunE: answer(e, func(ctx context.Context, c *rest.Client, args []string) (rest.TaskCreated, error) {
			req.Key = args[0]
			id, err := c.CreateTask(ctx, req)
			return rest.TaskCreated{ID: id}, err
		}, func(w io.Writer, t rest.TaskCreated) {
			fmt.Fprintf(w, "task %s; follow it: mooncake admin tasks status %s\n", t.ID, t.ID)
		}),
	}
	if kind == "move" {
		cmd.Use, cmd.Short = "move KEY", "Move an object from one segment to another"
		cmd.Example = "  mooncake admin tasks move page-1 --from 10.0.0.7:12300 --to 10.0.0.8:12300"
	}
	cmd.Flags().StringSliceVar(&req.Targets, "to", nil, "segments to write to; one for a move")
	cmd.Flags().StringVar(&req.Source, "from", "", "segment to read from (default for a copy: any)")
	cmd.Flags().StringVar(&req.Tenant, "tenant", "", "tenant of the object")
	return cmd
}

func (e *verbs) taskStatusCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "status TASK",
		Short:   "Show the progress of a task",
		Example: "  mooncake admin tasks status 4-4",
		Args:    command.Args(1, 1, "one task"),
		RunE: answer(e, func(ctx context.Context, c *rest.Client, args []string) (rest.Task, error) {
			return c.Task(ctx, args[0])
		}, writeTask),
	}
}

func writeTask(w io.Writer, t rest.Task) {
	fmt.Fprintf(w, "task %s: %s\n  %s %q from %q to %q\n  client %s, created %s, changed %s\n", t.ID, t.Status, t.Kind, t.Key, t.Source,
		t.Targets, t.Assigned, t.Created.Format(time.RFC3339), t.Updated.Format(time.RFC3339))
	if t.Message != "" {
		fmt.Fprintf(w, "  %s\n", t.Message)
	}
}
