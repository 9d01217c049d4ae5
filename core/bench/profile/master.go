package profile

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/masterload"
)

// Master is the load of a master that four threads call in batches of 1 and of 128 keys: each
// kind of call in turn, for a tenth of a second.
func Master(m masterload.CallMaster) Load {
	o := masterload.CallsOptions{Master: m, Batches: []int{1, 128}, Threads: []int{threads}, Keys: 1 << 15, Time: 100 * time.Millisecond}
	return Load{Name: "master", Run: func(ctx context.Context, end time.Time) error {
		for {
			if _, err := masterload.Calls(ctx, o); err != nil {
				return err
			}
			if !time.Now().Before(end) {
				return nil
			}
		}
	}}
}
