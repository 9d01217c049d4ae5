//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

package verbs_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/test/fakeverbs"
)

// Many QPs on one queue, each with its own poster, one of them closed in the middle: each request
// has one result, in the order of its QP.
func TestCrowd(t *testing.T) {
	const pairs, total, size = 6, 400, 64
	r := newRig(t)
	a, b := newSide(t, r, 0, pairs*total*size, verbs.QPConfig{}), newSide(t, r, 1, pairs*total*size, verbs.QPConfig{})
	var qps [pairs]*side
	for i := range qps {
		x, y := *a, *b
		x.newQP(t, verbs.QPConfig{Depth: 32 + i, SignalEvery: i, Tag: uint64(i)})
		y.newQP(t, verbs.QPConfig{Depth: 8})
		connect(t, &x, &y)
		qps[i] = &x
	}
	ctx, stop := context.WithCancel(limited(t))
	defer stop()
	var posters sync.WaitGroup
	var posted [pairs]int
	for i, s := range qps {
		posters.Go(func() {
			for posted[i] < total && ctx.Err() == nil {
				var wrs []verbs.WR
				for k := range min(10, total-posted[i]) {
					at := posted[i] + k
					wrs = append(wrs, wr(verbs.OpWrite, a, b, uint64(at), (i*total+at)*size, size))
				}
				n, err := s.qp.Post(wrs)
				if errors.Is(err, verbs.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if posted[i] += n; n == 0 {
					runtime.Gosched()
				}
				if i == 0 && posted[i] >= total/2 {
					if err = s.qp.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	var got [pairs][]verbs.Result
	all := make(chan struct{})
	go func() { posters.Wait(); close(all) }()
	buf := make([]verbs.Result, 16)
	for done := false; !done; {
		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		n, err := a.cq.Wait(short, buf)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		for _, res := range buf[:n] {
			got[res.Tag] = append(got[res.Tag], res)
		}
		select {
		case <-all:
			done = true
			for i := range got {
				done = done && len(got[i]) >= posted[i]
			}
		default:
		}
		if ctx.Err() != nil {
			t.Fatal("the requests do not end")
		}
	}
	for i := range got {
		if len(got[i]) != posted[i] || (i > 0 && posted[i] != total) {
			t.Fatalf("QP %d: %d results for %d requests", i, len(got[i]), posted[i])
		}
		for k, res := range got[i] {
			if res.ID != uint64(k) || (res.Status != 0 && i > 0) || (res.Status != 0 && res.Status != verbs.StatusClosed && res.Status != verbs.StatusFlushed) {
				t.Fatalf("QP %d: result %d is %+v", i, k, res)
			}
			off := (i*total + k) * size
			if res.Status == 0 && !bytes.Equal(a.mem[off:off+size], b.mem[off:off+size]) {
				t.Fatalf("QP %d: the bytes of request %d are not there", i, k)
			}
		}
	}
}

// What a closed QP left comes though the queue is never found empty.
func TestCloseGivesResultsUnderLoad(t *testing.T) {
	const batch = 20
	r := newFake(t, fakeverbs.Config{Devices: 2})
	a, b := newSide(t, r, 0, 4096, verbs.QPConfig{}), newSide(t, r, 1, 4096, verbs.QPConfig{})
	var err error
	a.cq, err = a.c.CreateCQ(100, 0)
	check(t, err)
	closing(t, a.cq)
	gone := *a
	gone.newQP(t, verbs.QPConfig{Depth: 8, Tag: 1})
	peer := *b
	peer.newQP(t, verbs.QPConfig{})
	connect(t, &gone, &peer)
	check(t, a.qp.Close())
	a.newQP(t, verbs.QPConfig{Depth: batch, SignalEvery: 1})
	connect(t, a, b)
	r.w.Fault(fakeverbs.Fault{Action: fakeverbs.Stall, QP: gone.qp.Num(), Device: -1})
	left, err := gone.qp.Post(numbered(a, b, 5))
	check(t, err)
	check(t, gone.qp.Close())
	buf := make([]verbs.Result, batch)
	for round := 0; left > 0; round++ {
		if round > 20 {
			t.Fatalf("%d results are missing", left)
		}
		before := r.w.Requests()
		n, err := a.qp.Post(numbered(a, b, batch))
		check(t, err)
		for r.w.Requests() < before+uint64(n) {
			runtime.Gosched()
		}
		for ours := 0; ours < n; {
			// Never more than there is, so that no call finds the queue empty.
			got, err := a.cq.Poll(buf[:n-ours])
			check(t, err)
			for _, res := range buf[:got] {
				if res.Tag == 1 {
					left--
				} else {
					ours++
				}
			}
		}
	}
}
