//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

package verbs_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
)

// Every request has one result, in order, and moved its bytes and no others.
func TestReadWrite(t *testing.T) {
	for _, op := range []verbs.OpCode{verbs.OpWrite, verbs.OpRead} {
		for _, cfg := range []verbs.QPConfig{{Depth: 1}, {Depth: 3, SignalEvery: 5}, {Depth: 64, Tag: 7}, {Depth: 128, SignalEvery: 1}, {Depth: 100, MaxInline: 64}} {
			t.Run(fmt.Sprintf("op %d depth %d", op, cfg.Depth), func(t *testing.T) {
				a, b := pair(t, newRig(t), 1<<18, cfg)
				want := bytes.Clone(b.mem)
				if op == verbs.OpRead {
					want = bytes.Clone(a.mem)
				}
				var wrs []verbs.WR
				for i := range 500 {
					off, n := i*512+i%7, i%300 // with empty ones
					wrs = append(wrs, wr(op, a, b, uint64(i)*3+1, off, n))
					if op == verbs.OpWrite {
						copy(want[off:off+n], a.mem[off:])
					} else {
						copy(want[off:off+n], b.mem[off:])
					}
				}
				for i, r := range post(t, a, wrs) {
					if r != (verbs.Result{ID: wrs[i].ID, Tag: cfg.Tag, QP: a.qp.Num, Len: wrs[i].Len}) {
						t.Fatalf("result %d is %+v", i, r)
					}
				}
				got := b.mem
				if op == verbs.OpRead {
					got = a.mem
				}
				if !bytes.Equal(got, want) {
					t.Error("the bytes are not right")
				}
				if n := a.qp.Outstanding(); n != 0 {
					t.Errorf("%d requests are still out", n)
				}
			})
		}
	}
}
