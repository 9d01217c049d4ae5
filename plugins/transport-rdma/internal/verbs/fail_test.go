//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

package verbs_test

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
)

// A request that fails has its own status; those before it succeeded, those after it are flushed,
// and each has one result.
func TestErrorFlushesTheRest(t *testing.T) {
	const bad, total = 37, 64
	for name, c := range map[string]struct {
		spoil func(*verbs.WR, *side)
		want  func(verbs.Status) bool
	}{
		"remote key":   {func(w *verbs.WR, _ *side) { w.RKey ^= 0xfff000 }, remoteAccess},
		"remote range": {func(w *verbs.WR, b *side) { w.Remote = addr(b.mem) + uint64(len(b.mem)) - 8 }, remoteAccess},
		"local key":    {func(w *verbs.WR, _ *side) { w.LKey ^= 0xfff000 }, verbs.Status.Local},
	} {
		for _, op := range []verbs.OpCode{verbs.OpWrite, verbs.OpRead} {
			t.Run(name+map[verbs.OpCode]string{verbs.OpWrite: " write", verbs.OpRead: " read"}[op], func(t *testing.T) {
				a, b := pair(t, newRig(t), 1<<16, verbs.QPConfig{SignalEvery: 20})
				var wrs []verbs.WR
				for i := range total {
					wrs = append(wrs, wr(op, a, b, uint64(i), i*512, 300))
				}
				c.spoil(&wrs[bad], b)
				n, err := a.qp.Post(wrs)
				check(t, err)
				if n != total {
					t.Fatalf("%d were accepted", n)
				}
				for i, r := range results(t, a, total) {
					ok := r.Status == verbs.StatusSuccess && r.Len == 300
					if i == bad {
						ok = c.want(r.Status) && r.Len == 0
					} else if i > bad {
						ok = r.Status == verbs.StatusFlushed && r.Len == 0
					}
					if r.ID != uint64(i) || !ok {
						t.Errorf("result %d is %+v (%s)", i, r, r.Status)
					}
				}
				noMore(t, a)
				info, err := a.qp.Query()
				check(t, err)
				if info.State != verbs.QPErr {
					t.Errorf("the QP is in %s", info.State)
				}
				if op == verbs.OpWrite && !bytes.Equal(b.mem[:bad*512], merge(a.mem[:bad*512], b.mem)) {
					t.Error("what came before the error is not there")
				}
			})
		}
	}
}

func remoteAccess(s verbs.Status) bool { return s == verbs.StatusRemoteAccess }

// merge returns old with the bytes that the requests of a test cover taken from sent.
func merge(sent, old []byte) []byte {
	m := bytes.Clone(old[:len(sent)])
	for i := 0; i < len(sent); i += 512 {
		copy(m[i:i+300], sent[i:])
	}
	return m
}

func noMore(t *testing.T, s *side) {
	t.Helper()
	if n, err := s.cq.Poll(make([]verbs.Result, 4)); n != 0 || err != nil || s.qp.Outstanding() != 0 {
		t.Errorf("%d further results, error %v, %d still out", n, err, s.qp.Outstanding())
	}
}

// The peer does not answer: the first request says so.
func TestPeerGone(t *testing.T) {
	a, b := pair(t, newRig(t), 4096, verbs.QPConfig{SignalEvery: 8})
	check(t, b.qp.Close())
	var wrs []verbs.WR
	for i := range 20 {
		wrs = append(wrs, wr(verbs.OpWrite, a, b, uint64(i), 0, 100))
	}
	for i, r := range post(t, a, wrs) {
		want := verbs.StatusFlushed
		if i == 0 {
			want = verbs.StatusRetryExceeded
		}
		if r.ID != uint64(i) || r.Status != want {
			t.Errorf("result %d is %+v", i, r)
		}
	}
	noMore(t, a)
}

// slow connects a side to a peer that is not there, patiently, so that requests stay out.
func slow(t *testing.T, r *rig, cfg verbs.QPConfig) *side {
	t.Helper()
	a := newSide(t, r, 0, 1<<16, cfg)
	check(t, a.qp.ToInit(verbs.InitAttr{Port: 1, Access: all}))
	gid := a.addr(t)
	gid[15] ^= 3 // the other device's
	check(t, a.qp.ToRTR(rtr(a, 0x3ff1, gid, 1024)))
	patient := rts
	patient.Timeout, patient.RetryCount = 20, 7
	check(t, a.qp.ToRTS(patient))
	if r.w != nil {
		r.w.Change(0, retryLong)
	}
	return a
}

func TestToErrFlushes(t *testing.T) {
	a := slow(t, newRig(t), verbs.QPConfig{SignalEvery: 50})
	var wrs []verbs.WR
	for i := range 40 {
		wrs = append(wrs, wr(verbs.OpWrite, a, a, uint64(i), 0, 100))
	}
	n, err := a.qp.Post(wrs)
	check(t, err)
	if n != 40 || a.qp.Outstanding() != 40 {
		t.Fatalf("%d accepted, %d out", n, a.qp.Outstanding())
	}
	check(t, a.qp.ToErr())
	check(t, a.qp.ToErr())
	for i, r := range results(t, a, 40) {
		if r.ID != uint64(i) || !r.Status.Flushed() {
			t.Errorf("result %d is %+v", i, r)
		}
	}
	noMore(t, a)
	_, err = a.qp.Post(wrs)
	wantErr(t, err, verbs.ErrState)
}

// What is in flight when a QP is closed has a result all the same, and a sleeping Wait gets it.
func TestCloseGivesResults(t *testing.T) {
	a := slow(t, newRig(t), verbs.QPConfig{SignalEvery: 50, Tag: 9})
	var wrs []verbs.WR
	for i := range 40 {
		wrs = append(wrs, wr(verbs.OpRead, a, a, uint64(i), 0, 100))
	}
	n, err := a.qp.Post(wrs)
	check(t, err)
	num, before := a.qp.Num(), a.cq.Free()
	closed := make(chan error, 1)
	go func() { closed <- a.qp.Close() }()
	for i, r := range results(t, a, n) {
		if r.ID != uint64(i) || r.Tag != 9 || r.QP != num || !r.Status.Flushed() {
			t.Errorf("result %d is %+v", i, r)
		}
	}
	check(t, <-closed)
	noMore(t, a)
	if got := a.cq.Free(); got != before+65 {
		t.Errorf("%d entries are free, %d before", got, before)
	}
	check(t, a.qp.Close())
	_, err = a.qp.Post(wrs)
	wantErr(t, err, verbs.ErrClosed)
	_, err = a.qp.Query()
	wantErr(t, err, verbs.ErrClosed)
}

func TestStates(t *testing.T) {
	a := newSide(t, newRig(t), 0, 4096, verbs.QPConfig{})
	_, err := a.qp.Post([]verbs.WR{wr(verbs.OpWrite, a, a, 1, 0, 1)})
	wantErr(t, err, verbs.ErrState)
	wantErr(t, a.qp.ToRTS(rts), verbs.ErrState)
	wantErr(t, a.qp.ToRTR(rtr(a, 1, a.addr(t), 1024)), verbs.ErrState)
	wantErr(t, a.qp.ToInit(verbs.InitAttr{Port: 2, Access: all}), syscall.EINVAL)
	wantErr(t, a.qp.ToInit(verbs.InitAttr{Port: 0, Access: all}), syscall.EINVAL)
	check(t, a.qp.ToInit(verbs.InitAttr{Port: 1, Access: all}))
	bad := rtr(a, 1, a.addr(t), 1000) // no MTU that exists
	wantErr(t, a.qp.ToRTR(bad), syscall.EINVAL)
	bad = rtr(a, 1, a.addr(t), 1024)
	bad.GIDIndex = 15 // an empty entry
	if err = a.qp.ToRTR(bad); err == nil {
		t.Error("an empty GID was accepted")
	}
	check(t, a.qp.ToRTR(rtr(a, a.qp.Num(), a.addr(t), 2048)))
	check(t, a.qp.ToRTS(rts))
	info, err := a.qp.Query()
	check(t, err)
	if info.State != verbs.QPRTS || info.MTU != 2048 || info.PeerQP != a.qp.Num() || info.Depth != 64 || info.Retry != 2 {
		t.Errorf("the QP is %+v", info)
	}
	// Connected to itself.
	w := wr(verbs.OpWrite, a, a, 1, 0, 100)
	w.Remote += 1000
	if got := post(t, a, []verbs.WR{w}); got[0].Status != 0 || !bytes.Equal(a.mem[:100], a.mem[1000:1100]) {
		t.Errorf("got %+v", got)
	}
}

func TestToErrFromReset(t *testing.T) {
	a := newSide(t, newRig(t), 0, 4096, verbs.QPConfig{})
	check(t, a.qp.ToErr())
	if a.qp.State() != verbs.QPErr {
		t.Errorf("the QP is in %s", a.qp.State())
	}
	wantErr(t, a.qp.ToInit(verbs.InitAttr{Port: 1, Access: all}), verbs.ErrState)
}

func TestBudget(t *testing.T) {
	r := newRig(t)
	s := newSide(t, r, 0, 4096, verbs.QPConfig{})
	cq, err := s.c.CreateCQ(127, 0)
	check(t, err)
	closing(t, cq)
	depth := cq.Free() - 1
	_, err = s.pd.CreateQP(cq, verbs.QPConfig{Depth: depth + 1})
	wantErr(t, err, verbs.ErrBudget)
	qp, err := s.pd.CreateQP(cq, verbs.QPConfig{Depth: depth})
	check(t, err)
	_, err = s.pd.CreateQP(cq, verbs.QPConfig{Depth: 1})
	wantErr(t, err, verbs.ErrBudget)
	check(t, qp.Close())
	if n, err := cq.Poll(make([]verbs.Result, 1)); n != 0 || err != nil {
		t.Fatalf("got %d, %v", n, err)
	}
	if cq.Free() != cq.Entries() {
		t.Errorf("%d of %d entries are free", cq.Free(), cq.Entries())
	}
	for _, cfg := range []verbs.QPConfig{{}, {Depth: -1}, {Depth: 1 << 20}, {Depth: 1, SignalEvery: -1}, {Depth: 1, MaxInline: -1}} {
		_, err = s.pd.CreateQP(s.cq, cfg)
		wantErr(t, err, syscall.EINVAL)
	}
}
