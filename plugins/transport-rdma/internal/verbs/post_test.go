//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

package verbs_test

import (
	"bytes"
	"fmt"
	"syscall"
	"testing"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/test/fakeverbs"
)

func numbered(a, b *side, n int) []verbs.WR {
	var wrs []verbs.WR
	for i := range n {
		wrs = append(wrs, wr(verbs.OpWrite, a, b, uint64(i), i*64, 64))
	}
	return wrs
}

// The QP takes as many as it is deep, and says how many that were.
func TestPostFull(t *testing.T) {
	a := slow(t, newRig(t), verbs.QPConfig{Depth: 10})
	wrs := numbered(a, a, 16)
	for _, step := range []struct{ from, to, want int }{{0, 7, 7}, {7, 16, 3}, {10, 16, 0}} {
		n, err := a.qp.Post(wrs[step.from:step.to])
		check(t, err)
		if n != step.want {
			t.Fatalf("of %d to %d, %d were accepted", step.from, step.to, n)
		}
	}
	check(t, a.qp.ToErr())
	if got := results(t, a, 10); got[9].ID != 9 {
		t.Errorf("got %+v", got)
	}
	noMore(t, a)
}

func TestPostRefusesNonsense(t *testing.T) {
	a, b := pair(t, newRig(t), 4096, verbs.QPConfig{SignalEvery: 32})
	wrs := numbered(a, b, 5)
	wrs[3].Op = 9
	n, err := a.qp.Post(wrs)
	wantErr(t, err, syscall.EINVAL)
	if n != 3 {
		t.Fatalf("%d were accepted", n)
	}
	// Those have results, though the last of the chain was not to be one of them.
	for i, r := range results(t, a, 3) {
		if r.ID != uint64(i) || r.Status != 0 {
			t.Errorf("result %d is %+v", i, r)
		}
	}
	n, err = a.qp.Post(nil)
	if n != 0 || err != nil {
		t.Errorf("posting nothing: %d, %v", n, err)
	}
}

// Wherever the device stops in a chain: what it took has results, without any further post.
func TestPostPartly(t *testing.T) {
	r := newFake(t, fakeverbs.Config{Devices: 2})
	a, b := pair(t, r, 1<<16, verbs.QPConfig{Depth: 128, SignalEvery: 50})
	wrs := numbered(a, b, 70)
	for _, at := range []int{0, 1, 5, 31, 32, 33, 49, 50, 69} {
		for _, errno := range []syscall.Errno{syscall.ENOMEM, syscall.EIO} {
			clear(b.mem)
			r.w.FailCall("post_wr", 0, at, 1, errno)
			n, err := a.qp.Post(wrs)
			if n != at {
				t.Fatalf("%d of %d were accepted", n, at)
			}
			if errno == syscall.ENOMEM && n > 0 {
				check(t, err) // no space until there is a result
			} else {
				wantErr(t, err, errno)
			}
			for i, r := range results(t, a, at) {
				if r.ID != uint64(i) || r.Status != 0 || r.Len != 64 {
					t.Errorf("at %d: result %d is %+v", at, i, r)
				}
			}
			if !bytes.Equal(b.mem[:at*64], a.mem[:at*64]) {
				t.Errorf("at %d: the bytes are not there", at)
			}
		}
	}
	noMore(t, a)
}

// Nothing can be posted any more, not even what would cover the requests that were taken: the QP
// is ended, so that they have results.
func TestPostPartlyAndNoMore(t *testing.T) {
	r := newFake(t, fakeverbs.Config{Devices: 2})
	a, b := pair(t, r, 1<<16, verbs.QPConfig{Depth: 128, SignalEvery: 50})
	stalled := r.w.Fault(fakeverbs.Fault{Action: fakeverbs.Stall, Device: -1})
	r.w.FailCall("post_wr", 0, 10, 2, syscall.ENOMEM)
	n, err := a.qp.Post(numbered(a, b, 20))
	check(t, err)
	if n != 10 {
		t.Fatalf("%d were accepted", n)
	}
	for i, r := range results(t, a, 10) {
		if r.ID != uint64(i) || r.Status != verbs.StatusFlushed {
			t.Errorf("result %d is %+v", i, r)
		}
	}
	if stalled.Hits() > 1 {
		t.Errorf("stalled %d times", stalled.Hits())
	}
	noMore(t, a)
}

// A driver that fails without a word of what it took may execute all: so all is accepted, and the
// QP is ended.
func TestPostSilent(t *testing.T) {
	r := newFake(t, fakeverbs.Config{Devices: 2})
	a, b := pair(t, r, 1<<16, verbs.QPConfig{})
	r.w.FailCall("post_silent", 0, 0, 1, syscall.EIO)
	n, err := a.qp.Post(numbered(a, b, 20))
	check(t, err)
	if n != 20 {
		t.Fatalf("%d were accepted", n)
	}
	info, err := a.qp.Query()
	check(t, err)
	if info.State != verbs.QPErr {
		t.Errorf("the QP is in %s", info.State)
	}
	check(t, a.qp.Close())
	for i, r := range results(t, a, 20) {
		if r.ID != uint64(i) || r.Status != verbs.StatusClosed {
			t.Errorf("result %d is %+v", i, r)
		}
	}
}

// Small writes are copied when they are posted: the memory is free at once.
func TestInline(t *testing.T) {
	r := newFake(t, fakeverbs.Config{Devices: 2})
	a, b := pair(t, r, 4096, verbs.QPConfig{MaxInline: 64})
	if a.qp.MaxInline() != 64 {
		t.Fatalf("inline is %d", a.qp.MaxInline())
	}
	for i, c := range []struct {
		n               int
		noInline, early bool
	}{{64, false, true}, {65, false, false}, {64, true, false}} {
		stall := r.w.Fault(fakeverbs.Fault{Action: fakeverbs.Stall, Device: 0})
		for j := range c.n {
			a.mem[j] = 1
		}
		w := wr(verbs.OpWrite, a, b, 1, 0, c.n)
		w.NoInline = c.noInline
		_, err := a.qp.Post([]verbs.WR{w})
		check(t, err)
		for stall.Hits() == 0 {
			_, err = a.qp.Query()
			check(t, err)
		}
		for j := range c.n {
			a.mem[j] = 2
		}
		r.w.Release()
		if got := results(t, a, 1); got[0].Status != 0 || (b.mem[0] == 1) != c.early {
			t.Errorf("case %d: %+v, arrived %d", i, got[0], b.mem[0])
		}
	}
	// A device that has none, or less.
	r.w.Change(0, func(d *fakeverbs.Device) { d.MaxInline = 16 })
	a.newQP(t, verbs.QPConfig{MaxInline: 64})
	if a.qp.MaxInline() > 16 {
		t.Errorf("inline is %d", a.qp.MaxInline())
	}
}

func TestCQOverrunIsReported(t *testing.T) {
	// The budget of the queue makes it impossible with sane devices; a doubled completion does it.
	r := newFake(t, fakeverbs.Config{Devices: 2})
	a, b := newSide(t, r, 0, 4096, verbs.QPConfig{}), newSide(t, r, 1, 4096, verbs.QPConfig{})
	check(t, a.qp.Close())
	var err error
	a.cq, err = a.c.CreateCQ(9, 0)
	check(t, err)
	closing(t, a.cq)
	a.newQP(t, verbs.QPConfig{Depth: 8, SignalEvery: 1})
	connect(t, a, b)
	r.w.Fault(fakeverbs.Fault{Action: fakeverbs.Duplicate, Device: 0, Times: 8})
	_, err = a.qp.Post(numbered(a, b, 8))
	check(t, err)
	if ev := expect(t, a.c, verbs.EventCQError); ev.QP != 0 {
		t.Errorf("the event is %+v", ev)
	}
	_, err = a.cq.Poll(make([]verbs.Result, 4))
	wantErr(t, err, syscall.EIO)
}

// One call into C for a batch, whatever its size, and nothing allocated.
func TestPlaneCost(t *testing.T) {
	a, b := pair(t, newRig(t), 1<<16, verbs.QPConfig{Depth: 128})
	wrs, buf := numbered(a, b, 64), make([]verbs.Result, 128)
	polls := 0
	reap := func() {
		for left := len(wrs); left > 0; polls++ {
			n, err := a.cq.Poll(buf)
			if err != nil {
				panic(err)
			}
			left -= n
		}
	}
	round := func() {
		if n, err := a.qp.Post(wrs); n != len(wrs) || err != nil {
			panic(fmt.Sprint(n, err))
		}
		reap()
	}
	round()
	if n := testing.AllocsPerRun(20, round); n != 0 {
		t.Errorf("%v allocations", n)
	}
	calls, posts := cgoCalls(), 20
	polls = 0
	for range posts {
		round()
	}
	if n := cgoCalls() - calls; n != int64(posts+polls) {
		t.Errorf("%d calls into C for %d posts and %d polls", n, posts, polls)
	}
}
