//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

package verbs_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/test/fakeverbs"
)

// Whatever happens to completions, each request has exactly one result, in order, and none that
// says success is wrong about its bytes.
func TestExactlyOnceUnderFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newFake(t, fakeverbs.Config{Devices: 2})
		depth := rapid.IntRange(1, 40).Draw(rt, "depth")
		cfg := verbs.QPConfig{Depth: depth, SignalEvery: rapid.IntRange(0, 20).Draw(rt, "every")}
		a, b := newSide(t, r, 0, 1<<14, cfg), newSide(t, r, 1, 1<<14, cfg)
		defer func() {
			for _, s := range []*side{a, b} {
				for _, c := range []closer{s.qp, s.mr, s.cq, s.pd, s.c} {
					check(t, c.Close())
				}
			}
		}()
		connect(t, a, b)
		clear(b.mem)
		r.w.Change(0, func(d *fakeverbs.Device) {
			d.CleanCQ = rapid.Uint32Range(0, 1).Draw(rt, "clean")
			d.LazyFlush = rapid.Uint32Range(0, 1).Draw(rt, "lazy")
		})
		for range rapid.IntRange(0, 4).Draw(rt, "faults") {
			r.w.Fault(fakeverbs.Fault{
				Action: rapid.SampledFrom([]fakeverbs.Action{fakeverbs.Drop, fakeverbs.Duplicate, fakeverbs.Reorder,
					fakeverbs.Garble, fakeverbs.Status, fakeverbs.Half, fakeverbs.Delay}).Draw(rt, "action"),
				Skip: rapid.IntRange(0, 60).Draw(rt, "skip"), Times: rapid.IntRange(1, 3).Draw(rt, "times"),
				WC: rapid.SampledFrom([]int{5, 10, 12}).Draw(rt, "status"), MS: 1, Device: -1,
			})
		}
		const total, size = 100, 128
		var wrs []verbs.WR
		for i := range total {
			wrs = append(wrs, wr(verbs.OpWrite, a, b, uint64(i), i*size, size))
		}
		var got []verbs.Result
		buf := make([]verbs.Result, rapid.IntRange(1, 9).Draw(rt, "buf"))
		stuck := 0
		for posted := 0; posted < total && stuck < 3000; {
			n, err := a.qp.Post(wrs[posted:min(total, posted+rapid.IntRange(1, 50).Draw(rt, "batch"))])
			check(t, err)
			posted += n
			m, err := a.cq.Poll(buf)
			check(t, err)
			got = append(got, buf[:m]...)
			if stuck++; n+m > 0 {
				stuck = 0
			}
			wrs = wrs[:max(posted, total)]
			if stuck >= 3000 {
				wrs = wrs[:posted] // a lost completion: closing ends it
			}
		}
		check(t, a.qp.Close())
		for {
			m, err := a.cq.Poll(buf)
			check(t, err)
			if got = append(got, buf[:m]...); m == 0 {
				break
			}
		}
		if len(got) != len(wrs) {
			rt.Fatalf("%d results for %d requests", len(got), len(wrs))
		}
		failed := false
		for i, res := range got {
			if res.ID != uint64(i) {
				rt.Fatalf("result %d is of request %d", i, res.ID)
			}
			if res.Status != 0 {
				failed = true
				continue
			}
			if failed {
				rt.Fatalf("request %d succeeded after one that failed", i)
			}
			if !bytes.Equal(b.mem[i*size:(i+1)*size], a.mem[i*size:(i+1)*size]) {
				rt.Fatalf("request %d succeeded, and its bytes are not there", i)
			}
		}
	})
}

// A byte that changes on the way is not noticed here: a caller that needs to notice it needs a
// checksum.
func TestFlippedByteGoesUnnoticed(t *testing.T) {
	r := newFake(t, fakeverbs.Config{Devices: 2})
	a, b := pair(t, r, 4096, verbs.QPConfig{})
	for _, op := range []verbs.OpCode{verbs.OpWrite, verbs.OpRead} {
		r.w.Fault(fakeverbs.Fault{Action: fakeverbs.FlipByte, Device: -1, Op: int(op), Offset: 100})
		got := post(t, a, []verbs.WR{wr(op, a, b, 1, 0, 4096)})
		if got[0].Status != 0 {
			t.Errorf("got %+v", got[0])
		}
		diff := 0
		for i := range a.mem {
			if a.mem[i] != b.mem[i] {
				diff++
			}
		}
		if diff != 1 || a.mem[100] == b.mem[100] {
			t.Errorf("%d bytes differ", diff)
		}
	}
}

func TestStrays(t *testing.T) {
	r := newFake(t, fakeverbs.Config{Devices: 2})
	a, b := pair(t, r, 4096, verbs.QPConfig{SignalEvery: 1})
	r.w.Fault(fakeverbs.Fault{Action: fakeverbs.Duplicate, Device: -1})
	r.w.Fault(fakeverbs.Fault{Action: fakeverbs.Garble, Device: -1})
	for i, res := range post(t, a, numbered(a, b, 5)) {
		if res.ID != uint64(i) || res.Status != 0 {
			t.Errorf("result %d is %+v", i, res)
		}
	}
	if n := a.cq.Strays(); n != 2 {
		t.Errorf("%d strays", n)
	}
}

// A completion that names a request of another QP does not end that.
func TestStrayOfAnotherQP(t *testing.T) {
	r := newFake(t, fakeverbs.Config{Devices: 2})
	a, b := pair(t, r, 4096, verbs.QPConfig{Depth: 8})
	other := *a
	other.newQP(t, verbs.QPConfig{Depth: 8})
	peer := *b
	peer.newQP(t, verbs.QPConfig{Depth: 8})
	connect(t, &other, &peer)
	stalled := r.w.Fault(fakeverbs.Fault{Action: fakeverbs.Stall, QP: other.qp.Num, Device: -1})
	n, err := other.qp.Post(numbered(a, b, 1))
	check(t, err)
	for stalled.Hits() == 0 {
		_, err = other.qp.Query()
		check(t, err)
	}
	garbled := r.w.Fault(fakeverbs.Fault{Action: fakeverbs.Garble, QP: a.qp.Num, Device: -1, Offset: 1 << 32})
	_, err = a.qp.Post(numbered(a, b, n))
	check(t, err)
	for a.cq.Strays() == 0 {
		if got, err := a.cq.Poll(make([]verbs.Result, 4)); got != 0 || err != nil {
			t.Fatalf("%d results, %v", got, err)
		}
	}
	if garbled.Hits() != 1 || other.qp.Outstanding() != 1 || a.qp.Outstanding() != 1 {
		t.Errorf("%d and %d requests are out", other.qp.Outstanding(), a.qp.Outstanding())
	}
	r.w.Release()
	if got := results(t, a, 1); got[0].QP != other.qp.Num || got[0].Status != 0 {
		t.Errorf("got %+v", got)
	}
}

// A device that breaks the rules: no success is reported for what may have been flushed.
func TestLazyFlush(t *testing.T) {
	r := newFake(t, fakeverbs.Config{Devices: 1})
	r.w.Change(0, func(d *fakeverbs.Device) { d.LazyFlush = 1 })
	a := slow(t, r, verbs.QPConfig{SignalEvery: 50})
	n, err := a.qp.Post(numbered(a, a, 40))
	check(t, err)
	check(t, a.qp.ToErr())
	for i, res := range results(t, a, n) {
		if res.ID != uint64(i) || res.Status != verbs.StatusFlushed {
			t.Errorf("result %d is %+v", i, res)
		}
	}
	noMore(t, a)
}

// The port goes down under a transfer: an error, and over another QP once it is up again.
func TestPortDownAndUp(t *testing.T) {
	r := newRig(t)
	a, b := pair(t, r, 4096, verbs.QPConfig{})
	setPort(t, r, 1, false)
	expect(t, b.c, verbs.EventPortError)
	if got := post(t, a, numbered(a, b, 3)); got[0].Status != verbs.StatusRetryExceeded || got[2].Status != verbs.StatusFlushed {
		t.Errorf("got %+v", got)
	}
	setPort(t, r, 1, true)
	expect(t, b.c, verbs.EventPortActive)
	for _, s := range []*side{a, b} {
		check(t, s.qp.Close())
		s.newQP(t, verbs.QPConfig{})
	}
	connect(t, a, b)
	if got := post(t, a, numbered(a, b, 3)); got[2].Status != 0 {
		t.Errorf("got %+v", got)
	}
}

// Peers whose packets differ in size: small requests pass, large ones fail.
func TestMTUMismatch(t *testing.T) {
	r := newRig(t)
	a, b := newSide(t, r, 0, 1<<14, verbs.QPConfig{}), newSide(t, r, 1, 1<<14, verbs.QPConfig{})
	a.to(t, b.qp.Num, b.addr(t), 4096)
	b.to(t, a.qp.Num, a.addr(t), 1024)
	got := post(t, a, []verbs.WR{wr(verbs.OpWrite, a, b, 1, 0, 1000), wr(verbs.OpWrite, a, b, 2, 0, 8192)})
	if got[0].Status != 0 || got[1].Status == 0 {
		t.Errorf("got %+v", got)
	}
	t.Logf("the device says %s", got[1].Status)
}

// What a peer's QP does not allow.
func TestQPAccess(t *testing.T) {
	r := newRig(t)
	a, b := newSide(t, r, 0, 4096, verbs.QPConfig{}), newSide(t, r, 1, 4096, verbs.QPConfig{})
	a.to(t, b.qp.Num, b.addr(t), 1024)
	check(t, b.qp.ToInit(verbs.InitAttr{Port: 1, Access: verbs.AccessLocalWrite | verbs.AccessRemoteRead}))
	check(t, b.qp.ToRTR(rtr(b, a.qp.Num, a.addr(t), 1024)))
	check(t, b.qp.ToRTS(rts))
	got := post(t, a, []verbs.WR{wr(verbs.OpRead, a, b, 1, 0, 100), wr(verbs.OpWrite, a, b, 2, 0, 100)})
	if got[0].Status != 0 || (got[1].Status != verbs.StatusRemoteInvalid && got[1].Status != verbs.StatusRemoteAccess) {
		t.Errorf("got %+v", got)
	}
	t.Logf("the device says %s", got[1].Status)
}
