package store_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/core/master/statetest"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// attempt is one value that a client tried to put under a key, or a removal.
type attempt struct {
	kind             string // put, upsert or remove, as of statetest.Pool
	key              model.Key
	client           int
	number           uint64
	value            []byte
	called, returned int64
	// ok says that the call succeeded. Otherwise it may have had its effect, or have it yet.
	ok bool
	// strong says that one master made it that knew all segments, and none else served: what it replaced is gone.
	// Otherwise that may come back.
	strong bool
	// read says that a read returned the value.
	read bool
}

// history is what the clients of a simulation tried and saw.
type history struct {
	t     *testing.T
	seen  statetest.History
	mu    sync.Mutex
	of    map[model.Key][]*attempt
	count uint64
	hits  int
	// memory says what the memory of an object holds.
	memory func(model.Key) string
}

func newHistory(t *testing.T) *history { return &history{t: t, of: map[model.Key][]*attempt{}} }

// try makes an attempt. whole is asked before and after it for the life of a master that knows all segments, 0 for none.
func (h *history) try(a *attempt, whole func() int, do func() error) {
	h.mu.Lock()
	h.count++
	a.number, a.called, a.returned = h.count, h.seen.Tick(), statetest.Pending
	h.of[a.key] = append(h.of[a.key], a)
	h.mu.Unlock()
	life := whole()
	err := do()
	strong := life > 0 && life == whole()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		a.returned, a.ok, a.strong = h.seen.Tick(), true, strong
	}
}

// began returns the instant at which a read begins.
func (h *history) began() int64 { return h.seen.Tick() }

// check finds the value that a read returned. Nothing damages memory here, so no read finds a wrong checksum.
func (h *history) check(key model.Key, client int, called int64, off uint64, got []byte, whole bool, err error) {
	if errs.Is(err, errs.ChecksumMismatch) {
		h.t.Errorf("at %v a read that began at tick %d found damage: %v\n%s", time.Now(), called, err, h.memory(key))
	}
	if err != nil {
		return
	}
	returned := h.seen.Tick()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hits++
	for _, a := range h.of[key] {
		if whole && !bytes.Equal(a.value, got) || off+uint64(len(got)) > uint64(len(a.value)) || !bytes.Equal(a.value[off:off+uint64(len(got))], got) {
			continue
		}
		a.read = true
		h.seen.Add(statetest.Op{Kind: "read", Key: key, Client: client, Sum: a.number}, called, statetest.Result{}, returned)
		return
	}
	h.t.Errorf("a read of %d bytes at %d of %s returned what was never put there", len(got), off, key)
}

// explained looks for an order of all calls that explains every read. Attempts of which nothing follows are left out:
// those that may have failed, or need not have written, and whose value no read returned.
func (h *history) explained() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, all := range h.of {
		for _, a := range all {
			if !a.read && (!a.strong || a.kind == "put") {
				continue
			}
			h.seen.Add(statetest.Op{Kind: a.kind, Key: a.key, Client: a.client, Sum: a.number, Weak: !a.strong}, a.called, statetest.Result{}, a.returned)
		}
	}
	return h.seen.Check(statetest.Pool(), time.Minute)
}

// source names the attempts whose bytes b holds, in runs. Values have no bytes in common.
func (h *history) source(b []byte) string {
	const sample = 16
	h.mu.Lock()
	defer h.mu.Unlock()
	var out strings.Builder
	last, from := "", 0
	for at := 0; at+sample <= len(b); at += sample {
		what := h.holder(b[at : at+sample])
		if what != last && at > 0 {
			fmt.Fprintf(&out, "  bytes %d to %d: %s\n", from, at, last)
			from = at
		}
		last = what
	}
	fmt.Fprintf(&out, "  bytes %d to %d: %s\n", from, len(b), last)
	return out.String()
}

// holder names the attempt of which a sample is. The caller holds h.mu.
func (h *history) holder(sample []byte) string {
	for _, all := range h.of {
		for _, a := range all {
			if bytes.Contains(a.value, sample) {
				return fmt.Sprintf("attempt %d, %s of %s (%d bytes) by client %d, ticks %d to %d, ok %t", a.number, a.kind, a.key, len(a.value), a.client, a.called, a.returned, a.ok)
			}
		}
	}
	return "of no attempt"
}
