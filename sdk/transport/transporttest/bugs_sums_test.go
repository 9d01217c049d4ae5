package transporttest_test

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// sumBugs are bugs of checksums.
func sumBugs() map[string]bug {
	wrong := func(says string, change func(*transport.Completion)) bug {
		return bug{bend: completes(change), finds: []string{"checksums"}, says: says}
	}
	return map[string]bug{
		"a checksum is wrong": wrong("bytes at", func(c *transport.Completion) {
			if c.Summed {
				c.Sum ^= 1 << 31
			}
		}),
		"a checksum of long operations is missing": {bend: submits(func(o *transport.Op) {
			o.Sum = o.Sum && len(o.Local) < 1<<20
		}), finds: []string{"checksums"}, says: "1048576 bytes, a checksum asked for: true"},
		"every completion has a checksum": {bend: submits(func(o *transport.Op) {
			o.Sum = true
		}), finds: []string{"checksums"}, says: "a checksum asked for: false"},
		"an unrequested checksum": wrong("bytes at", func(c *transport.Completion) {
			if !c.Summed {
				c.Sum = 7
			}
		}),
		"the checksum of nothing is not 0": {bend: paths(func(p *bentPath) {
			empty := false
			p.submit = func(ops []transport.Op) (int, error) {
				empty = len(ops) == 1 && len(ops[0].Local) == 0 && ops[0].Sum
				return p.Path.Submit(ops)
			}
			p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
				n, err := p.Path.Reap(ctx, dst)
				if n > 0 && empty {
					dst[0].Sum = ^uint32(0)
				}
				return n, err
			}
		}), finds: []string{"checksums"}, says: "the checksum of nothing"},
		"a failed operation has a checksum": wrong("a failed operation has no checksum", func(c *transport.Completion) {
			c.Summed = c.Summed || c.Status != transport.OK
		}),
		"a path without checksums returns them": extends(func(x *transport.Extras) { x.Checksums = false }, "checksums", "a checksum asked for: true"),
	}
}
