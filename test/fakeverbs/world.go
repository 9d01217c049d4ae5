package fakeverbs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Config is what a world is made with.
type Config struct {
	// Devices is how many there are, at most 8; they are named fake0 and so on.
	Devices int
	// Old leaves out what was added after rdma-core 17: dma-buf, relaxed ordering, the GID table.
	Old bool
}

// World is a set of devices. Its methods may be called at any time, from any goroutine but for
// those that change the same thing.
type World struct {
	t    testing.TB
	path string
	s    *shared
	// rules and faults count what was armed; an entry is not used twice, so that its hits stay.
	rules, faults atomic.Int32
}

// New makes a world. When the test ends it fails for every object of this process that is still
// open.
func New(t testing.TB, cfg Config) *World {
	t.Helper()
	if cfg.Devices < 0 || cfg.Devices > maxDevices {
		t.Fatalf("fakeverbs: %d devices, at most %d", cfg.Devices, maxDevices)
	}
	if why := reachable(); why != "" {
		t.Skip("fakeverbs: " + why)
	}
	code, err := os.ReadFile(Build(t, cfg.Old))
	if err != nil {
		t.Fatalf("fakeverbs: %v", err)
	}
	w := &World{t: t, path: filepath.Join(t.TempDir(), "libibverbs.so.1")}
	if err = os.WriteFile(w.path, code, 0o755); err != nil {
		t.Fatalf("fakeverbs: %v", err)
	}
	w.s = mapWorld(t, w.path+".world")
	w.s.size = uint64(unsafe.Sizeof(shared{}))
	w.s.devices = uint32(cfg.Devices)
	for i := range cfg.Devices {
		w.s.device[i] = defaults(i)
	}
	w.s.magic = magic
	t.Cleanup(func() {
		if live := w.Live(os.Getpid()); len(live) > 0 {
			t.Errorf("fakeverbs: still open at the end of the test: %v", live)
		}
	})
	return w
}

func mapWorld(t testing.TB, path string) *shared {
	size := int(unsafe.Sizeof(shared{}))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		defer f.Close()
		err = f.Truncate(int64(size))
	}
	var mem []byte
	if err == nil {
		mem, err = syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	}
	if err != nil {
		t.Fatalf("fakeverbs: %v", err)
	}
	// It stays mapped: the library in this process has it mapped until the process ends anyway, and
	// goroutines of the test may look at it late.
	return (*shared)(unsafe.Pointer(&mem[0]))
}

// defaults describes a device of 100 Gb/s with three addresses.
func defaults(i int) Device {
	d := Device{
		MaxMRSize: 1 << 40, MaxMR: maxMRs, MaxQP: maxPairs, MaxQPWR: 16384, MaxCQ: 1024, MaxCQE: 1 << 20, MaxPD: 1024,
		MaxInline: 64, MaxReads: 16, Vectors: 4, LinkLayer: 2, State: 4, ActiveMTU: 5, MaxMTU: 5,
		Width: 2, Speed: 32,
	}
	b := byte(i + 1)
	d.GIDs[0] = GID{Addr: [16]byte{0: 0xfe, 1: 0x80, 15: b}, Type: 1, IfIndex: 1}
	d.GIDs[1] = GID{Addr: [16]byte{0: 0xfe, 1: 0x80, 15: b}, Type: 2, IfIndex: 1}
	d.GIDs[3] = GID{Addr: [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: 77, 15: b}, Type: 2, IfIndex: 1}
	return d
}

// reachable says why this process cannot copy memory as the fake does, or "".
func reachable() string {
	var from, to byte = 1, 0
	l := syscall.Iovec{Base: &to, Len: 1}
	r := syscall.Iovec{Base: &from, Len: 1}
	n, _, errno := syscall.Syscall6(unix.SYS_PROCESS_VM_READV, uintptr(os.Getpid()),
		uintptr(unsafe.Pointer(&l)), 1, uintptr(unsafe.Pointer(&r)), 1, 0)
	if errno != 0 || n != 1 || to != 1 {
		return fmt.Sprintf("process_vm_readv does not work here: %v", errno)
	}
	return ""
}

// Path returns the library.
func (w *World) Path() string { return w.path }

// Sysfs returns the folder of a device's attributes, which is where DeviceInfo.SysfsPath points to.
// It does not exist until the test makes it.
func (w *World) Sysfs(device int) string { return fmt.Sprintf("%s.sysfs/fake%d", w.path, device) }

// Change edits a device. What the library reads at the same time is read word by word.
func (w *World) Change(device int, edit func(*Device)) { edit(&w.s.device[device]) }

// Addr returns the IPv4-mapped GID of a device, at GID index 3.
func (w *World) Addr(device int) [16]byte { return w.s.device[device].GIDs[3].Addr }

// Calls returns how often a function was called, by all processes.
func (w *World) Calls(name string) int {
	return int(atomic.LoadUint64(&w.s.calls[funcIndex(w.t, name)]))
}

// Requests returns how many work requests ended, Bytes how many bytes they moved.
func (w *World) Requests() uint64 { return atomic.LoadUint64(&w.s.requests) }

// Bytes returns how many bytes were moved.
func (w *World) Bytes() uint64 { return atomic.LoadUint64(&w.s.bytes) }

// Live returns the objects that a process has open, by kind; kinds without any are left out.
func (w *World) Live(pid int) map[string]int {
	live := map[string]int{}
	for i := range w.s.procs {
		p := &w.s.procs[i]
		if int(atomic.LoadInt32(&p.pid)) != pid {
			continue
		}
		for k, name := range kindNames {
			if n := atomic.LoadInt32(&p.live[k]); n != 0 {
				live[name] = int(n)
			}
		}
	}
	return live
}

func funcIndex(t testing.TB, name string) uint32 {
	t.Helper()
	i := slices.Index(funcs, name)
	if i < 0 {
		t.Fatalf("fakeverbs: no function %q; there are %v", name, funcs)
	}
	return uint32(i)
}

// kick wakes the threads of the library.
func (w *World) kick() {
	atomic.AddUint32(&w.s.kick, 1)
	const futexWake = 1
	// It cannot fail for a mapped word.
	_, _, _ = syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&w.s.kick)), futexWake, 1<<30, 0, 0, 0)
}
