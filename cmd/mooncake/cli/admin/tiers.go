package admin

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/master/metrics"
	"github.com/mooncake-go/mooncake/core/model"
)

func (e *verbs) tiersCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "tiers",
		Short: "List the storage tiers of the nodes, and how full they are",
		Long: `Lists every storage tier with its node. USED is what the copies there occupy, as the master
counts; the tier itself may count more, since it rounds each record up. ADOPTED counts the
copies that the master took over from the ledger of the tier when it started. ABSENT SINCE is
the time since when the node is silent: what lies there cannot be read, and can again when the
node returns.`,
		Example: `  mooncake admin tiers
  mooncake admin tiers -o json`,
		Args: command.NoArgs,
		RunE: answer(e, func(ctx context.Context, c *rest.Client, _ []string) ([]rest.Segment, error) {
			list, err := c.Segments(ctx)
			_, tiers := split(list)
			return tiers, err
		}, writeTiers),
	}
}

// split returns the segments of memory and the storage tiers of a list.
func split(list []rest.Segment) (memory, tiers []rest.Segment) {
	memory, tiers = make([]rest.Segment, 0, len(list)), make([]rest.Segment, 0, len(list))
	for i := range list {
		if list[i].Protocol == model.ProtocolTier {
			tiers = append(tiers, list[i])
		} else {
			memory = append(memory, list[i])
		}
	}
	return memory, tiers
}

func writeTiers(w io.Writer, tiers []rest.Segment) {
	if len(tiers) == 0 {
		fmt.Fprintln(w, "no storage tier is mounted; start a master and a store with --enable_offload, the store with --ssd_offload_path DIR")
		return
	}
	t := output.NewColumns("TIER", "NODE", "STATUS", "USED", "SIZE", "FULL", "WRITING", "HELD", "ADOPTED", "ABSENT SINCE")
	for i := range tiers {
		s := &tiers[i]
		node, _ := model.SplitTier(s.Name)
		t.Row(strconv.Quote(s.Name), strconv.Quote(node), status(s), metrics.Bytes(s.Used), metrics.Bytes(s.Size), full(s),
			metrics.Bytes(s.Writing), metrics.Bytes(s.Held), strconv.FormatUint(s.Adopted, 10), when(s.AbsentSince))
	}
	_ = t.Write(w) // The writer keeps the error.
}
