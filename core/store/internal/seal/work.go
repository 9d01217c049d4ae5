package seal

import (
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// unitSize is about how many bytes a core works on at a time.
	unitSize = 512 << 10
	// parallelSize is the number of bytes from which on several cores work.
	parallelSize = 1 << 20
)

// Object is an object that is sealed or opened.
type Object struct {
	aead      cipher.AEAD
	algorithm Algorithm
	size      uint64
	chunk     uint64
	tags      []byte
	sealing   bool
	body      []byte // where sealing with AEAD puts the ciphertext
	wrong     atomic.Uint64
}

// Err returns, after the work, an error if a chunk was not what was sealed.
func (o *Object) Err() error {
	if n := o.wrong.Load(); n > 0 {
		return errs.New(errs.ChecksumMismatch, "", "the bytes from %d on are not those that were sealed: the object is damaged or forged", (n-1)*o.chunk)
	}
	return nil
}

// Work is chunks to seal and to open. The zero value has none. It is not safe for concurrent use; Do uses several cores.
type Work struct {
	units []unit
	bytes int
	next  atomic.Int64
	wg    sync.WaitGroup
	own   worker
}

// unit is chunks of an object that follow each other.
type unit struct {
	o     *Object
	run   []store.Fragment // adjacent fragments
	skip  int              // bytes of run before the unit
	n     int              // bytes of the unit
	first uint64           // its first chunk
}

// Reset forgets everything.
func (w *Work) Reset() {
	clear(w.units)
	w.units, w.bytes = w.units[:0], 0
}

// add divides fragments, which are runs of whole chunks, into units.
func (w *Work) add(o *Object, fs []store.Fragment) error {
	for len(fs) > 0 {
		at, end, n := fs[0].Offset, fs[0].Offset, 0
		for n < len(fs) && fs[n].Offset == end {
			end += uint64(len(fs[n].Mem))
			n++
		}
		if at%o.chunk != 0 || end%o.chunk != 0 && end != o.size || end > o.size {
			return errs.New(errs.Internal, "seal", "the bytes [%d, %d) of %d are not whole chunks of %d", at, end, o.size, o.chunk)
		}
		step := max(unitSize/o.chunk, 1) * o.chunk
		for lo := at; lo < end; lo += step {
			w.units = append(w.units, unit{o: o, run: fs[:n], skip: int(lo - at), n: int(min(step, end-lo)), first: lo / o.chunk})
		}
		w.bytes += int(end - at)
		fs = fs[n:]
	}
	return nil
}

// Do does the work, and forgets it.
func (w *Work) Do() {
	if w.bytes < parallelSize || len(w.units) == 1 {
		for i := range w.units {
			w.own.do(&w.units[i])
		}
	} else {
		w.next.Store(0)
		for range min(runtime.GOMAXPROCS(0), len(w.units)) {
			w.wg.Go(w.work)
		}
		w.wg.Wait()
	}
	w.Reset()
}

func (w *Work) work() {
	own := workers.Get().(*worker)
	defer workers.Put(own)
	for i := w.next.Add(1) - 1; i < int64(len(w.units)); i = w.next.Add(1) - 1 {
		own.do(&w.units[i])
	}
}

var workers = sync.Pool{New: func() any { return new(worker) }}

// worker has the memory of one goroutine that seals and opens.
type worker struct {
	nonce   [12]byte
	saved   [tagSize]byte
	tag     [tagSize]byte
	scratch []byte
}

// do seals or opens the chunks of a unit, in order.
func (k *worker) do(u *unit) {
	o, run, skip := u.o, u.run, u.skip
	for skip >= len(run[0].Mem) {
		skip -= len(run[0].Mem)
		run = run[1:]
	}
	for i, left := u.first, u.n; left > 0; i++ {
		n := min(left, int(o.chunk))
		left -= n
		binary.BigEndian.PutUint64(k.nonce[4:], i)
		tag := o.tags[i*tagSize:][:tagSize]
		if mem := run[0].Mem[skip:]; len(mem) >= n {
			if left == 0 {
				mem = mem[:n] // What follows is of another worker, or the caller's.
			}
			if !k.chunk(o, i, mem, n, tag) {
				o.fail(i)
			}
		} else if !k.gathered(o, i, run, skip, n, tag) {
			o.fail(i)
		}
		for skip += n; len(run) > 0 && skip >= len(run[0].Mem); run = run[1:] {
			skip -= len(run[0].Mem)
		}
	}
}

// fail notes the first chunk that is wrong.
func (o *Object) fail(i uint64) {
	for old := o.wrong.Load(); old == 0 || i+1 < old; old = o.wrong.Load() {
		if o.wrong.CompareAndSwap(old, i+1) {
			return
		}
	}
}

// chunk seals or opens a chunk, the first n bytes of mem. What follows it in mem is the next chunk of the same unit.
func (k *worker) chunk(o *Object, i uint64, mem []byte, n int, tag []byte) bool {
	switch {
	case o.algorithm == MAC:
		return k.authenticate(o, mem[:n], tag)
	case o.sealing:
		dst := o.body[i*o.chunk:]
		if len(mem) == n { // the last one of the unit
			dst = dst[:n]
		}
		k.encrypt(o, dst, mem[:n], tag)
		return true
	}
	return k.decrypt(o, mem, n, tag)
}

// gathered seals or opens a chunk that lies in several fragments.
func (k *worker) gathered(o *Object, i uint64, run []store.Fragment, skip, n int, tag []byte) bool {
	mem := k.space(n + tagSize)[:n]
	at := 0
	each := func(do func(part, mem []byte)) {
		at = 0
		for r, s := run, skip; at < n; r, s = r[1:], 0 {
			part := r[0].Mem[s:]
			part = part[:min(len(part), n-at)]
			do(part, mem[at:at+len(part)])
			at += len(part)
		}
	}
	each(func(part, mem []byte) { copy(mem, part) })
	switch {
	case o.algorithm == MAC:
		return k.authenticate(o, mem, tag)
	case o.sealing:
		out := o.aead.Seal(mem[:0], k.nonce[:], mem, nil)
		copy(o.body[i*o.chunk:], out[:n])
		copy(tag, out[n:])
		return true
	}
	copy(mem[:n+tagSize][n:], tag)
	_, err := o.aead.Open(mem[:0], k.nonce[:], mem[:n+tagSize], nil)
	each(func(part, mem []byte) { copy(part, mem) })
	return err == nil
}

// authenticate computes the tag of a chunk, or compares it.
func (k *worker) authenticate(o *Object, mem, tag []byte) bool {
	if o.sealing {
		o.aead.Seal(tag[:0:tagSize], k.nonce[:], nil, mem)
		return true
	}
	return subtle.ConstantTimeCompare(o.aead.Seal(k.tag[:0], k.nonce[:], nil, mem), tag) == 1
}

// encrypt writes the ciphertext of src to the beginning of dst. Where dst has space behind it, that is only borrowed for the
// tag, which the cipher puts there.
func (k *worker) encrypt(o *Object, dst, src, tag []byte) {
	n := len(src)
	if len(dst) < n+tagSize {
		out := o.aead.Seal(k.space(n + tagSize)[:0], k.nonce[:], src, nil)
		copy(dst, out[:n])
		copy(tag, out[n:])
		return
	}
	behind := dst[n : n+tagSize]
	copy(k.saved[:], behind)
	o.aead.Seal(dst[:0:n+tagSize], k.nonce[:], src, nil)
	copy(tag, behind)
	copy(behind, k.saved[:])
}

// decrypt is the reverse of encrypt for the first n bytes of mem.
func (k *worker) decrypt(o *Object, mem []byte, n int, tag []byte) bool {
	if len(mem) < n+tagSize {
		in := k.space(n + tagSize)
		copy(in[copy(in, mem[:n]):], tag)
		_, err := o.aead.Open(mem[:0:n], k.nonce[:], in, nil)
		return err == nil
	}
	behind := mem[n : n+tagSize]
	copy(k.saved[:], behind)
	copy(behind, tag)
	_, err := o.aead.Open(mem[:0:n], k.nonce[:], mem[:n+tagSize], nil)
	copy(behind, k.saved[:])
	return err == nil
}

// space returns scratch memory of n bytes.
func (k *worker) space(n int) []byte {
	if cap(k.scratch) < n {
		k.scratch = make([]byte, n)
	}
	return k.scratch[:n]
}
