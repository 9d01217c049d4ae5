//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

package verbs_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/test/fakeverbs"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(peerEnv); path != "" {
		os.Exit(peerMain(path))
	}
	goleak.VerifyTestMain(m)
}

// onDevices says that the machine has RDMA devices that the tests may use: rxe0 and rxe1 of the
// test VM.
func onDevices() bool { return os.Getenv("RDMA_VM") != "" }

// limit bounds every wait of a test.
const limit = 60 * time.Second

// rig is two devices that reach each other, fake or real.
type rig struct {
	lib   *verbs.Lib
	names [2]string
	gid   int
	w     *fakeverbs.World // nil on real devices
}

// newRig takes real devices where there are some.
func newRig(t testing.TB) *rig {
	t.Helper()
	if !onDevices() {
		return newFake(t, fakeverbs.Config{Devices: 2})
	}
	lib, err := verbs.Open("")
	check(t, err)
	return &rig{lib: lib, names: [2]string{"rxe0", "rxe1"}, gid: 1}
}

// newFake always takes the fake: for tests of faults.
func newFake(t testing.TB, cfg fakeverbs.Config) *rig {
	t.Helper()
	if onDevices() {
		t.Skip("this test needs the fake")
	}
	w := fakeverbs.New(t, cfg)
	lib, err := verbs.Open(w.Path())
	check(t, err)
	return &rig{lib: lib, names: [2]string{"fake0", "fake1"}, gid: 3, w: w}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

func closing(t testing.TB, c interface{ Close() error }) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// side is one end: a device with a QP and registered memory.
type side struct {
	c   *verbs.Context
	pd  *verbs.PD
	cq  *verbs.CQ
	qp  *verbs.QP
	mr  *verbs.MR
	mem []byte
	gid int
}

const all = verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite

// newSide opens a device. Its memory holds size random bytes.
func newSide(t testing.TB, r *rig, i, size int, cfg verbs.QPConfig) *side {
	t.Helper()
	s := &side{gid: r.gid, mem: mapped(t, size)}
	rnd := rand.NewChaCha8([32]byte{byte(i)})
	_, _ = rnd.Read(s.mem)
	var err error
	s.c, err = r.lib.OpenDevice(r.names[i])
	check(t, err)
	closing(t, s.c)
	s.pd, err = s.c.AllocPD()
	check(t, err)
	closing(t, s.pd)
	s.cq, err = s.c.CreateCQ(4096, 0)
	check(t, err)
	closing(t, s.cq)
	s.mr, err = s.pd.RegMR(s.mem, all)
	check(t, err)
	closing(t, s.mr)
	s.newQP(t, cfg)
	return s
}

func (s *side) newQP(t testing.TB, cfg verbs.QPConfig) {
	t.Helper()
	if cfg.Depth == 0 {
		cfg.Depth = 64
	}
	var err error
	s.qp, err = s.pd.CreateQP(s.cq, cfg)
	check(t, err)
	closing(t, s.qp)
}

// mapped returns memory outside the Go heap.
func mapped(t testing.TB, size int) []byte {
	t.Helper()
	mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	check(t, err)
	t.Cleanup(func() { check(t, syscall.Munmap(mem)) })
	return mem
}

func addr(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&mem[0]))) }

// to brings a QP to RTS. Few retries: a peer that is gone is found out soon.
func (s *side) to(t testing.TB, peer uint32, gid [16]byte, mtu int) {
	t.Helper()
	check(t, s.qp.ToInit(verbs.InitAttr{Port: 1, Access: all}))
	check(t, s.qp.ToRTR(rtr(s, peer, gid, mtu)))
	check(t, s.qp.ToRTS(rts))
}

var rts = verbs.RTSAttr{Timeout: 8, RetryCount: 2, RNRRetry: 7, ReadsOut: 16}

func rtr(s *side, peer uint32, gid [16]byte, mtu int) verbs.RTRAttr {
	return verbs.RTRAttr{MTU: mtu, PeerQP: peer, PeerGID: gid, Port: 1, GIDIndex: s.gid, HopLimit: 16, ReadsIn: 16, MinRNRTimer: 12}
}

func (s *side) addr(t testing.TB) [16]byte {
	t.Helper()
	g, err := s.c.GID(1, s.gid)
	check(t, err)
	return g.GID
}

// pair connects two sides.
func pair(t testing.TB, r *rig, size int, cfg verbs.QPConfig) (a, b *side) {
	t.Helper()
	a, b = newSide(t, r, 0, size, cfg), newSide(t, r, 1, size, cfg)
	connect(t, a, b)
	return a, b
}

func connect(t testing.TB, a, b *side) {
	t.Helper()
	a.to(t, b.qp.Num(), b.addr(t), 1024)
	b.to(t, a.qp.Num(), a.addr(t), 1024)
}

// wr is a request between the same offsets of both sides.
func wr(op verbs.OpCode, a, b *side, id uint64, off, n int) verbs.WR {
	return verbs.WR{ID: id, Local: addr(a.mem) + uint64(off), LKey: a.mr.LKey(), Remote: addr(b.mem) + uint64(off),
		RKey: b.mr.RKey(), Len: uint32(n), Op: op}
}

// results waits for n results of a side.
func results(t testing.TB, s *side, n int) []verbs.Result {
	t.Helper()
	var all []verbs.Result
	buf := make([]verbs.Result, 7) // odd, so that completions are split over calls
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for len(all) < n {
		got, err := s.cq.Wait(ctx, buf)
		if err != nil {
			t.Fatalf("after %d of %d results: %v", len(all), n, err)
		}
		all = append(all, buf[:got]...)
	}
	return all
}

// post posts everything, reaping while the QP is full.
func post(t testing.TB, s *side, wrs []verbs.WR) []verbs.Result {
	t.Helper()
	var done []verbs.Result
	total := len(wrs)
	for len(wrs) > 0 {
		n, err := s.qp.Post(wrs)
		check(t, err)
		wrs = wrs[n:]
		if n == 0 {
			done = append(done, results(t, s, 1)...)
		}
	}
	return append(done, results(t, s, total-len(done))...)
}

func retryLong(d *fakeverbs.Device) { d.RetryMS = 1 << 30 }

func cgoCalls() int64 { return runtime.NumCgoCall() }
