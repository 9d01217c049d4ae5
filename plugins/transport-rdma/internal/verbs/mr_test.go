//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

package verbs_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/test/fakeverbs"
)

func TestRegisterRefused(t *testing.T) {
	r := newRig(t)
	s := newSide(t, r, 0, 1<<16, verbs.QPConfig{})
	gone, err := syscall.Mmap(-1, 0, 1<<16, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	check(t, err)
	at := addr(gone)
	check(t, syscall.Munmap(gone))
	_, err = s.pd.RegRange(at, 1<<16, all)
	wantErr(t, err, syscall.EFAULT)
	var e *verbs.Error
	if !errors.As(err, &e) || e.Call != "ibv_reg_mr" || e.Device != r.names[0] || !strings.Contains(e.Object, "65536 bytes") {
		t.Errorf("the error does not say what was refused: %v", err)
	}
	_, err = s.pd.RegMR(nil, all)
	wantErr(t, err, syscall.EINVAL)
	_, err = s.pd.RegMR(s.mem, verbs.AccessRemoteWrite) // without the local right
	wantErr(t, err, syscall.EINVAL)
}

// Go's own memory can be registered, and stays while it is.
func TestRegisterGoMemory(t *testing.T) {
	a, b := pair(t, newRig(t), 4096, verbs.QPConfig{})
	mem := bytes.Repeat([]byte{7}, 4096)
	mr, err := a.pd.RegMR(mem, all|verbs.AccessRelaxedOrdering)
	check(t, err)
	closing(t, mr)
	w := wr(verbs.OpWrite, a, b, 1, 0, 4096)
	w.Local, w.LKey = mr.Addr, mr.LKey
	if mr.Len != 4096 {
		t.Errorf("registered %d bytes", mr.Len)
	}
	if got := post(t, a, []verbs.WR{w}); got[0].Status != 0 || !bytes.Equal(b.mem, mem) {
		t.Errorf("got %+v", got)
	}
}

func TestRegisterLimits(t *testing.T) {
	r := newFake(t, fakeverbs.Config{Devices: 1})
	s := newSide(t, r, 0, 1<<16, verbs.QPConfig{})
	for name, set := range map[string]func(*fakeverbs.Device){
		"memlock": func(d *fakeverbs.Device) { d.Memlock = 1<<16 + 4096 },
		"max_mr":  func(d *fakeverbs.Device) { d.MaxMR = 1 },
	} {
		var before fakeverbs.Device
		r.w.Change(0, func(d *fakeverbs.Device) { before = *d; set(d) })
		_, err := s.pd.RegMR(s.mem[:8192], all)
		wantErr(t, err, syscall.ENOMEM)
		r.w.Change(0, func(d *fakeverbs.Device) { d.Memlock, d.MaxMR = before.Memlock, before.MaxMR })
		mr, err := s.pd.RegMR(s.mem[:8192], all)
		if err != nil {
			t.Fatalf("after %s: %v", name, err)
		}
		check(t, mr.Close())
	}
	r.w.Change(0, func(d *fakeverbs.Device) { d.MaxMRSize = 4096 })
	_, err := s.pd.RegMR(s.mem[:8192], all)
	wantErr(t, err, syscall.EINVAL)
}

func TestRelaxedOrderingNeedsIova2(t *testing.T) {
	r := newFake(t, fakeverbs.Config{Devices: 1})
	s := newSide(t, r, 0, 4096, verbs.QPConfig{})
	if n := r.w.Calls("ibv_reg_mr_iova2"); n != 0 {
		t.Errorf("%d registrations were relaxed without being asked to", n)
	}
	mr, err := s.pd.RegMR(s.mem, all|verbs.AccessRelaxedOrdering)
	check(t, err)
	closing(t, mr)
	if n := r.w.Calls("ibv_reg_mr_iova2"); n != 1 {
		t.Errorf("%d calls of ibv_reg_mr_iova2", n)
	}
}

// Memory of a dma-buf is addressed from iova on; a memfd stands in for a GPU's.
func TestDMABuf(t *testing.T) {
	r := newFake(t, fakeverbs.Config{Devices: 2})
	a, b := pair(t, r, 1<<16, verbs.QPConfig{})
	fd, err := unix.MemfdCreate("gpu", unix.MFD_CLOEXEC)
	check(t, err)
	f := os.NewFile(uintptr(fd), "gpu")
	defer f.Close()
	check(t, f.Truncate(1<<16))
	const iova = 0x7f00_0000_1100
	mr, err := b.pd.RegDMABuf(fd, 0x2100, 0x3000, iova, all|verbs.AccessRelaxedOrdering)
	check(t, err)
	closing(t, mr)
	w := wr(verbs.OpWrite, a, b, 1, 0, 0x1000)
	w.Remote, w.RKey = iova+0x10, mr.RKey
	if got := post(t, a, []verbs.WR{w}); got[0].Status != 0 {
		t.Fatalf("got %+v", got)
	}
	got := make([]byte, 0x1000)
	_, err = f.ReadAt(got, 0x2110)
	check(t, err)
	if !bytes.Equal(got, a.mem[:0x1000]) {
		t.Error("the bytes are not in the dma-buf")
	}
	null, err := os.Open(os.DevNull)
	check(t, err)
	defer null.Close()
	_, err = b.pd.RegDMABuf(int(null.Fd()), 0, 4096, 0, all)
	wantErr(t, err, syscall.EINVAL)
	_, err = b.pd.RegDMABuf(-1, 0, 4096, 0, all)
	wantErr(t, err, syscall.EBADF)
	_, err = b.pd.RegDMABuf(fd, 1<<16, 4096, 0, all)
	wantErr(t, err, syscall.EINVAL)
}
