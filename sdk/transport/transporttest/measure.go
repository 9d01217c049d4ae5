package transporttest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// measure runs count operations, at most depth at a time, and reports bytes and operations per
// second.
func (s *suite) measure(t conformance.TB, p transport.Path, kind transport.OpKind, id transport.RemoteID, buf []byte, size, depth, count int) {
	free := make([]uint64, depth)
	for i := range free {
		free[i] = uint64(i)
	}
	ops := make([]transport.Op, 0, depth)
	dst := make([]transport.Completion, depth)
	began := time.Now()
	for begun, done := 0, 0; done < count; {
		ops = ops[:0]
		for _, slot := range free[:min(len(free), count-begun)] {
			at := int(slot) * size
			ops = append(ops, transport.Op{ID: slot, Kind: kind, Local: buf[at:][:size], Remote: id, Offset: uint64(at)})
		}
		n, err := p.Submit(ops)
		require.NoError(t, err)
		free, begun = free[n:], begun+n
		n, err = p.Reap(within(t), dst)
		require.NoError(t, err)
		for _, c := range dst[:n] {
			require.Equal(t, transport.OK, c.Status, "%v", c.Err)
			free = append(free, c.ID)
		}
		done += n
	}
	took := time.Since(began).Seconds()
	name := map[transport.OpKind]string{transport.Read: "read", transport.Write: "write"}[kind]
	what := fmt.Sprintf("%s of %d KiB, %d under way", name, size>>10, depth)
	conformance.AddFigure(t, what, float64(count*size)/took/1e6, "MB/s")
	conformance.AddFigure(t, what+", operations", float64(count)/took, "1/s")
}
