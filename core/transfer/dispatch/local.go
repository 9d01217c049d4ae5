package dispatch

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// parallelCopy is from how many bytes on a copy is spread over cores.
const parallelCopy = 8 << 20

// perCore is the least number of bytes of one request that is worth a goroutine of its own.
const perCore = 4 << 20

// copyLocal serves the requests to this process itself by copying, for an observer or for a
// transfer without one.
func (d *Dispatcher) copyLocal(ctx context.Context, o Observer, tasks []*request.Task) {
	total := 0
	for _, t := range tasks {
		total += len(t.Req.Local)
	}
	cores := runtime.GOMAXPROCS(0)
	if total < parallelCopy {
		cores = 1
	}
	workers := min(len(tasks), cores)
	if workers < 2 {
		for _, t := range tasks {
			d.copyOne(ctx, o, t, cores)
		}
		return
	}
	d.copyShared(ctx, o, tasks, workers, cores/workers)
}

// copyShared distributes the requests over workers, each with so many cores.
func (d *Dispatcher) copyShared(ctx context.Context, o Observer, tasks []*request.Task, workers, cores int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for k := next.Add(1) - 1; k < int64(len(tasks)); k = next.Add(1) - 1 {
				d.copyOne(ctx, o, tasks[k], cores)
			}
		})
	}
	wg.Wait()
}

// copyOne serves one request on up to cores cores.
func (d *Dispatcher) copyOne(ctx context.Context, o Observer, t *request.Task, cores int) {
	err := ended(ctx)
	if at := t.Req.Deadline; err == nil && !at.IsZero() && !time.Now().Before(at) {
		err = request.ErrTimeout
	}
	if until := t.Req.Until; err == nil && until != nil && !time.Now().Before(until()) {
		err = request.ErrLapsed
	}
	if err != nil {
		err = errs.Wrap(errs.TransferFail, "transfer: copy", err)
	} else if err = d.copyRange(t, cores); err == nil {
		t.Moved.Store(uint64(len(t.Req.Local)))
		d.LocalCopies.Add(1)
	}
	if o != nil {
		o.MovedBytes().Add(t.Moved.Load())
	}
	finish(o, t, err, time.Now())
}

// copyRange copies region by region: a request may reach over the border of adjacent ones.
func (d *Dispatcher) copyRange(t *request.Task, cores int) error {
	r := &t.Req
	for off := 0; off < len(r.Local); {
		n, sum, grained, err := d.copyRegion(r, off, cores)
		if err != nil {
			return err
		}
		if off += n; grained {
			t.Grained += n
		}
		if r.Sum {
			t.Sum.Add(sum, n, len(r.Local)-off)
		}
	}
	return nil
}

// copyRegion copies what is off bytes into a request, up to the end of the region that holds it,
// and computes the checksums that the request asks for. It reports whether it computed those of grains.
func (d *Dispatcher) copyRegion(r *request.Request, off, cores int) (n int, sum uint32, grained bool, err error) {
	addr, local := r.Addr+uint64(off), r.Local[off:]
	g := d.Regions.At(addr)
	if g == nil {
		return 0, 0, false, errs.New(errs.InvalidReplica, "transfer: copy", "%d bytes at %#x are not in registered memory", len(local), addr)
	}
	need := transport.AccessRemoteRead
	if r.Kind == transport.Write {
		need = transport.AccessRemoteWrite
	}
	if g.Access&need == 0 {
		return 0, 0, false, errs.New(errs.InvalidParams, "transfer: copy", "the memory at %#x is not open to this", addr)
	}
	if !g.Hold() {
		return 0, 0, false, errs.New(errs.InvalidReplica, "transfer: copy", "the memory at %#x was given up", addr)
	}
	defer g.LetGo()
	there := g.Mem[addr-g.Addr:]
	n = min(len(there), len(local))
	how := sums{all: r.Sum}
	if r.Grains.Sums != nil {
		how.grains, grained = r.Grains.Cut(off, off+n, len(r.Local))
	}
	if r.Kind == transport.Write {
		if g.Guard != nil {
			w := g.Guard.BeginWrite(addr-g.Addr, uint64(n), copying{})
			if w == 0 {
				return 0, 0, false, errs.WithClass(errs.ClassPermanent, "", errs.New(errs.InvalidWrite, "transfer: copy",
					"%d bytes at %#x take no write: the put that had this memory has ended", n, addr))
			}
			defer g.Guard.EndWrite(w)
		}
		sum = copyParts(there[:n], local[:n], how, cores)
		d.Wrote.Add(uint64(n))
	} else {
		sum = copyParts(local[:n], there[:n], how, cores)
		d.Read.Add(uint64(n))
	}
	return n, sum, grained, nil
}

// copying implements transport.Writer for a copy within the process, which ends soon anyway.
type copying struct{}

// Cut implements transport.Writer.
func (copying) Cut() {}

// sums says which checksums a copy computes.
type sums struct {
	all    bool
	grains transport.Grains
}

// copyParts copies all of src, which is as long as dst, on up to cores cores.
func copyParts(dst, src []byte, how sums, cores int) (sum uint32) {
	n := len(src)
	if overlap(dst, src) { // Only copy gets that right.
		copy(dst, src)
		if g := how.grains; g.Sums != nil {
			crc32c.SumGrains(g.Sums, dst, g.Lead, g.Size)
		}
		if how.all {
			sum = crc32c.Sum(dst)
		}
		return sum
	}
	cores = min(cores, n/perCore)
	if cores < 2 {
		return copyPart(dst, src, how)
	}
	var all atomic.Uint32
	var wg sync.WaitGroup
	size := (n/cores + 4095) &^ 4095
	for from, to := 0, 0; from < n; from = to {
		part := sums{all: how.all}
		if to = min(from+size, n); how.grains.Sums != nil {
			to = how.grains.Border(from, to, n)
			part.grains, _ = how.grains.Cut(from, to, n)
		}
		wg.Go(func() {
			sum := crc32c.Shift(copyPart(dst[from:to], src[from:to], part), uint64(n-to))
			for old := all.Load(); !all.CompareAndSwap(old, old^sum); old = all.Load() {
			}
		})
	}
	wg.Wait()
	return all.Load()
}

// overlap reports whether two ranges of memory share bytes.
func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	x, y := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
}

func copyPart(dst, src []byte, how sums) uint32 {
	g := how.grains
	switch {
	case g.Sums != nil:
		if crc32c.CopyGrains(g.Sums, dst, src, g.Lead, g.Size); how.all {
			return crc32c.Sum(dst)
		}
	case how.all:
		return crc32c.Copy(dst, src)
	default:
		copy(dst, src)
	}
	return 0
}
