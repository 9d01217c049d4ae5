package evictor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	prefix "github.com/mooncake-go/mooncake/plugins/evict-prefix"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// deaf takes events and forgets them.
type deaf struct{ evict.Policy }

func (deaf) Record(context.Context, []evict.Event) error { return nil }

// fill puts objects, of which the policy has heard.
func fill(b *testing.B, f *fixture, n int) {
	var events objects.DrainBuffer
	for i := range n {
		x := segments.Extent{Seg: f.seg, Offset: uint64(i), Size: 1}
		put := objects.NewObject{Key: fmt.Sprint("a page of a conversation, ", i), Size: 1, Copies: [][]segments.Extent{{x}}}
		if _, out := f.table.Put(&put, 1, time.Minute, nil, &objects.Bin{}); out != objects.Done {
			b.Fatal(out)
		}
		if _, _, out := f.table.Finish(put.Key, 0, objects.Client{}, model.Checksum{}, 1, 0); out != objects.Done {
			b.Fatal(out)
		}
		if i%4096 == 0 {
			f.table.Drain(&events)
		}
	}
	f.table.Drain(&events)
}

// BenchmarkResync is a resync of a policy: what the evictor and the table take of it, and the whole with a policy in this process.
func BenchmarkResync(b *testing.B) {
	for _, n := range []int{1_000_000, 10_000_000} {
		f := newFixture(b, nil)
		fill(b, f, n)
		for _, name := range []string{"deaf", "prefix"} {
			b.Run(fmt.Sprintf("objects=%d/%s", n, name), func(b *testing.B) {
				for b.Loop() {
					p, err := prefix.Factory().New(prefix.Factory().DefaultConfig())
					if err != nil {
						b.Fatal(err)
					}
					if name == "deaf" {
						p = deaf{p}
					}
					if err := f.Replay(b.Context(), p); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
