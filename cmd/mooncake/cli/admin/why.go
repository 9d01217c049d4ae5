package admin

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/master/metrics"
	"github.com/mooncake-go/mooncake/core/model"
)

// NewWhy makes the verb why.
func NewWhy(env *command.Env) *cobra.Command {
	e := &verbs{Env: env}
	tenant := ""
	cmd := &cobra.Command{
		Use:   "why KEY",
		Short: "Explain a key: where its object is and what protects it, or when and why it was removed",
		Long: `Explains the state of one key: whether its object can be read, where its bytes lie, which
clients wrote and read it, and what protects it from eviction; or when and why the object was
evicted, removed or lost. A copy on a storage tier is named with its node and tier. The query
changes nothing: it grants no lease and does not count as a use. The master remembers removed
keys only for a while.`,
		Example: `  mooncake why model/page-1
  mooncake why model/page-1 --tenant team-a --master 10.0.0.1:50051
  mooncake why model/page-1 -o json`,
		Args: command.Keys(1, 1, "one key"),
		RunE: answer(e, func(ctx context.Context, c *rest.Client, args []string) (rest.Story, error) {
			return c.Why(ctx, tenant, args[0])
		},
			func(w io.Writer, s rest.Story) { writeStory(w, s, time.Now()) }),
	}
	e.register(cmd)
	cmd.Flags().StringVar(&tenant, "tenant", "", "tenant of the key")
	return cmd
}

// writeStory writes the story of a key as text.
func writeStory(w io.Writer, s rest.Story, now time.Time) {
	fmt.Fprintf(w, "%q", s.Key)
	if s.Tenant != "" {
		fmt.Fprintf(w, " of tenant %q", s.Tenant)
	}
	fmt.Fprintf(w, ": %s%s\n", s.Fate, since(s.When, now))
	if s.Reason != "" {
		fmt.Fprintf(w, "  %s\n", s.Reason)
	}
	if s.Object == nil {
		if s.Since != nil {
			fmt.Fprintf(w, "  the master remembers what was removed since %s\n", s.Since.Format(time.RFC3339))
		}
		return
	}
	o := s.Object
	fmt.Fprintf(w, "  size       %s (%d bytes), checksum %s\n", metrics.Bytes(o.Size), o.Size, o.Checksum)
	fmt.Fprintf(w, "  protected  %s\n", protection(o))
	if o.Group != "" {
		fmt.Fprintf(w, "  group      %q: read and evicted together\n", o.Group)
	}
	fmt.Fprintf(w, "  writer     client %s\n", o.Creator)
	reader := "never"
	if o.LastRead != nil {
		reader = "a client without a name"
	}
	if o.LastReader != nil {
		reader = "client " + *o.LastReader
	}
	fmt.Fprintf(w, "  last read  %s%s\n", reader, since(o.LastRead, now))
	if o.Copying {
		fmt.Fprintln(w, "  a copy or move of it is in progress")
	}
	for i, r := range o.Replicas {
		fmt.Fprintf(w, "  copy %d     %s, %s\n", i+1, r.Status, metrics.Bytes(r.Size))
		for _, p := range r.Parts {
			if p.Protocol == model.ProtocolTier {
				node, tier := model.SplitTier(p.Segment)
				fmt.Fprintf(w, "               storage tier %q of node %q, %s\n", tier, node, metrics.Bytes(p.Size))
				continue
			}
			fmt.Fprintf(w, "               %q at %s, %s from byte %d (%s)\n", p.Segment, p.Address, metrics.Bytes(p.Size), p.Offset, p.Protocol)
		}
	}
}

// protection describes what protects an object from eviction.
func protection(o *rest.StoryObject) string {
	var by []string
	if o.HardPin {
		by = append(by, "a hard pin, until it is removed")
	}
	for _, x := range []struct {
		what string
		left int64
	}{{"a read", o.LeaseLeft}, {"a lookup", o.ProbeLeft}, {"a soft pin", o.SoftPinLeft}} {
		if x.left > 0 {
			by = append(by, fmt.Sprintf("%s, for another %s", x.what, time.Duration(x.left)*time.Millisecond))
		}
	}
	if len(by) == 0 {
		return "by nothing: it is evicted when space is needed and its turn has come"
	}
	return "by " + strings.Join(by, "; by ")
}

// since returns ", at <time> (<duration> ago)", or an empty text for an unknown time.
func since(t *time.Time, now time.Time) string {
	if t == nil {
		return ""
	}
	span := now.Sub(*t)
	if span < 0 {
		return ", at " + t.Format(time.RFC3339)
	}
	return fmt.Sprintf(", at %s (%s ago)", t.Format(time.RFC3339), span.Truncate(time.Second))
}
