package transports

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// writes bends the bytes of each write; change gets a copy.
func writes(change func([]byte) []byte) func(*bent) {
	return submits(func(o *transport.Op) {
		if o.Kind == transport.Write && len(o.Local) > 0 {
			o.Local = change(slices.Clone(o.Local))
		}
	})
}

// moveBugs are bugs of moving bytes.
func moveBugs() map[string]bug {
	kinds := one("content of many kinds")
	return map[string]bug{
		"short-read": {"a read of 4095 bytes leaves out its last byte", one("content at many sizes"), submits(func(o *transport.Op) {
			if o.Kind == transport.Read && len(o.Local) == 4095 {
				o.Local = o.Local[:4094]
			}
		})},
		"large-cut": {"an operation of more than 2 MiB leaves out its last byte", one("content at many sizes", "one operation larger than everything"), submits(func(o *transport.Op) {
			if len(o.Local) > 2<<20 {
				o.Local = o.Local[:len(o.Local)-1]
			}
		})},
		"zeros-skipped":   {"a write of zeros stores nothing", kinds, writes(func(b []byte) []byte { return b[:len(b)*min(1, len(bytes.TrimLeft(b, "\x00")))] })},
		"end-zeros-lost":  {"a write stores no zeros at its end", kinds, writes(func(b []byte) []byte { return bytes.TrimRight(b, "\x00") })},
		"pages-collapsed": {"a page that begins like the one before is taken for equal", kinds, writes(collapse)},
		"text-inflated": {"text that was compressed loses a letter when it is inflated", kinds, writes(func(b []byte) []byte {
			if len(b) > 4096 && bytes.Contains(b[:256], []byte("fox")) {
				b[4096] ^= 32
			}
			return b
		})},
		"read-past-end": {"a read that reaches past the end of its region is cut instead of refused", one("regions side by side"), submits(func(o *transport.Op) {
			if o.Offset == 10_006 && len(o.Local) == 2 {
				o.Local = o.Local[:1]
			}
		})},
		"late-store": {"a read stores a byte after its completion", one("a completion is terminal"), lateStore},
		"third-path": {"the third path of a transport drops writes beyond 480000 bytes", one("many goroutines and paths"), thirdPath},
		"second-of-three": {"the second of three operations that are submitted together is cut", one("content at random"), paths(func(p *bentPath) {
			p.submit = func(ops []transport.Op) (int, error) {
				if len(ops) >= 3 && len(ops[1].Local) > 1000 {
					ops = slices.Clone(ops)
					ops[1].Local = ops[1].Local[:len(ops[1].Local)-1]
				}
				return p.inner.Submit(ops)
			}
		})},
	}
}

// collapse replaces each page by the one before if their first 8 bytes are equal.
func collapse(b []byte) []byte {
	for at := 4096; at+4096 <= len(b); at += 4096 {
		if last := b[at-4096 : at]; bytes.Equal(last[:8], b[at:at+8]) {
			copy(b[at:], last)
		}
	}
	return b
}

func lateStore(b *bent) {
	paths(func(p *bentPath) {
		var mu sync.Mutex
		last := map[uint64][]byte{}
		p.submit = func(ops []transport.Op) (int, error) {
			n, err := p.inner.Submit(ops)
			mu.Lock()
			defer mu.Unlock()
			for _, o := range ops[:n] {
				if o.Kind == transport.Read && len(o.Local) == 100 {
					last[o.ID] = o.Local
				}
			}
			return n, err
		}
		p.close = func(ctx context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			for _, b := range last {
				b[0] = 0
			}
			clear(last)
			return p.inner.Close(ctx)
		}
	})(b)
}

func thirdPath(b *bent) {
	var made atomic.Int32
	paths(func(p *bentPath) {
		if made.Add(1) < 3 {
			return
		}
		p.submit = func(ops []transport.Op) (int, error) {
			ops = slices.Clone(ops)
			for i := range ops {
				if ops[i].Kind == transport.Write && ops[i].Offset >= 480_000 {
					ops[i].Local = nil
				}
			}
			return p.inner.Submit(ops)
		}
	})(b)
}
