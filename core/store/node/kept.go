package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/vault"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Kept is memory of a node that outlives its process: what the process before has left, and the vault in which this
// one leaves its own. A segment is kept with its ledger, as two files. Safe for concurrent use, but for what
// a Node does at its start.
type Kept struct {
	open    OpenVault
	cluster string
	log     *slog.Logger
	client  model.ClientID
	left    []*leftSegment

	mu    sync.Mutex // guards vault, and is held during its calls
	vault vault.Vault
	name  string // of the vault
	lost  bool   // the vault did not answer
}

// OpenVault opens the vault of a node, nil for none. With anew it gives no memory of another process.
type OpenVault func(ctx context.Context, anew bool) (vault.Vault, error)

// leftSegment is a segment of the process before.
type leftSegment struct {
	ledger *ledger.Log
	mem    *ledgerMemory // of the ledger
	memory *os.File
	size   uint64
	huge   memory.HugePages
	// cell is the one that it belongs to, of so many.
	cell, of int
}

// The names in the vault: one of these and the segment's ID.
const (
	memoryPrefix = "memory-"
	ledgerPrefix = "ledger-"
)

// OpenKept opens a vault and reads what the process before this one has left in it. It makes the vault forget what it
// cannot use, and what belongs to another cluster, and logs it. It returns nil if there is no vault, and InvalidVersion,
// with nothing forgotten, where another release left what this one cannot read.
func OpenKept(ctx context.Context, open OpenVault, cluster string, log *slog.Logger) (*Kept, error) {
	v, err := open(ctx, false)
	if v == nil || err != nil {
		return nil, err
	}
	k := &Kept{open: open, vault: v, name: v.String(), cluster: cluster, log: log, client: model.NewUUID()}
	if err := k.read(ctx, v); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

// read takes what the vault has.
func (k *Kept) read(ctx context.Context, v vault.Vault) error {
	names, err := v.Names(ctx)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	objects, bytes := 0, uint64(0)
	for _, name := range names {
		id, ok := strings.CutPrefix(name, ledgerPrefix)
		if !ok {
			continue
		}
		s, err := k.take(ctx, id)
		if errors.Is(err, ledger.ErrLayout) {
			return errs.WithHint(errs.New(errs.InvalidVersion, "memory kept in "+v.String(), "segment %s: %w", id, err),
				"run the release that wrote it, or one in between; to give its objects up, free it: stop its keeper, or the unit whose descriptor store has it")
		}
		if err != nil {
			k.log.Error("kept memory cannot be used and is freed; its objects are lost", "segment", id, "vault", v.String(), "error", err)
			continue
		}
		used[name], used[memoryPrefix+id] = true, true
		k.left = append(k.left, s)
		k.client = s.ledger.Place().Client
		objects, bytes = objects+s.ledger.Len(), bytes+s.size
	}
	for _, name := range names {
		if used[name] {
			continue
		}
		if err := v.Drop(ctx, name); err != nil {
			return err
		}
	}
	k.log.Info("memory is kept beyond the life of this process", "vault", v.String(),
		"segments_found", len(k.left), "bytes", memory.Human(bytes), "objects", objects)
	return nil
}

// take takes one segment.
func (k *Kept) take(ctx context.Context, id string) (*leftSegment, error) {
	f, err := k.vault.Take(ctx, ledgerPrefix+id)
	if err != nil {
		return nil, err
	}
	mem, err := mapLedger(f)
	if err != nil {
		return nil, err
	}
	s := &leftSegment{mem: mem}
	if s.ledger, err = ledger.Open(mem); err != nil {
		return nil, err
	}
	of := s.ledger.Identity()
	var known bool
	s.cell, s.of, known = cellOf(of.Cluster, k.cluster)
	switch {
	case !known:
		return nil, fmt.Errorf("it belongs to cluster %q, and this store to %q", of.Cluster, k.cluster)
	case of.Segment.String() != id:
		return nil, fmt.Errorf("its ledger is that of segment %s", of.Segment)
	case s.ledger.Place().Client.IsZero():
		return nil, fmt.Errorf("its ledger names no client")
	}
	if s.memory, err = k.vault.Take(ctx, memoryPrefix+id); err != nil {
		return nil, err
	}
	s.size = of.Size
	if s.huge, err = pagesOf(s.memory); err == nil {
		err = s.complete()
	}
	if err != nil {
		_ = s.memory.Close() // It is not used.
	}
	return s, err
}

// complete returns an error if the memory is not as large as its ledger says.
func (s *leftSegment) complete() error {
	info, err := s.memory.Stat()
	if err != nil {
		return err
	}
	if have := uint64(info.Size()); have < s.size || have-s.size >= pageSize(s.huge) {
		return fmt.Errorf("its memory has %d bytes instead of %d", have, s.size)
	}
	return nil
}

// newLedger makes empty memory for a ledger.
func (k *Kept) newLedger() (*ledgerMemory, error) {
	f, err := k.make("mooncake-ledger", memory.HugeNone)
	if err != nil {
		return nil, err
	}
	return newLedgerMemory(f)
}

// make makes the file of a segment's memory or of its ledger.
func (k *Kept) make(name string, huge memory.HugePages) (*os.File, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.vault.Make(name, uint64(huge))
}

// check returns an error if the vault does not make memory as the node wants it. machine says that it lies in the
// machine's memory.
func (k *Kept) check(huge memory.HugePages) (machine bool, err error) {
	f, err := k.make("mooncake-segment", huge)
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // It holds nothing.
	pages, err := pagesOf(f)
	if err == nil && pages != huge {
		err = errs.WithHint(errs.New(errs.InvalidParams, "", "store.keep: %s have huge pages: %s, and this store is to have: %s", k.vault, pages, huge),
			"set store.use_hugepage and store.hugepage_size to what the file system has, or name a directory of another one")
	}
	if memory.InFile(f) {
		k.log.Info("processes of this host reach the memory of this store by its other transports, not as shared memory: files take no seals", "vault", k.vault.String())
	}
	return memory.OfMachine(f), err
}

// Client is the client that the process before was, or a new one.
func (k *Kept) Client() model.ClientID { return k.client }

// String says what keeps the memory.
func (k *Kept) String() string { return k.name }

// Close ends the use of the vault, which goes on keeping what it has.
func (k *Kept) Close() error {
	for _, s := range k.left {
		_ = s.memory.Close() // Another copy of a descriptor.
	}
	k.left = nil
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.vault.Close()
}

// choose returns the segments that a node of total bytes, in segments of at most most bytes, goes on with: as many
// bytes as fit, beginning with those that have the most objects. The vault forgets the others. cells is the number of cells of
// the pool, 0 if it is not known.
func (k *Kept) choose(ctx context.Context, total, most uint64, huge memory.HugePages, cells int) ([]*leftSegment, error) {
	slices.SortFunc(k.left, func(a, b *leftSegment) int {
		return cmp.Or(cmp.Compare(b.ledger.Len(), a.ledger.Len()), cmp.Compare(b.size, a.size))
	})
	var out []*leftSegment
	for _, s := range k.left {
		if s.size <= min(total, most) && s.huge == huge && (cells == 0 || cells == s.of) {
			total -= s.size
			out = append(out, s)
			continue
		}
		id := s.ledger.Identity().Segment
		k.log.Warn("kept memory does not fit the size, the pages or the number of cells that this store is to have, and is freed; its objects are lost",
			"segment", id.String(), "size", memory.Human(s.size), "pages", s.huge.String(), "cells", s.of, "objects", s.ledger.Len())
		_ = s.memory.Close()
		if err := k.drop(ctx, id); err != nil {
			return nil, err
		}
	}
	k.left = out
	return out, nil
}

// keep has the vault keep the memory and the ledger of a segment.
func (k *Kept) keep(ctx context.Context, s *segment) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.give(ctx, s)
}

func (k *Kept) give(ctx context.Context, s *segment) error {
	f, err := s.memory.File()
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // A copy of a descriptor.
	if err := k.vault.Keep(ctx, memoryPrefix+s.ID.String(), f); err != nil {
		return err
	}
	return k.vault.Keep(ctx, ledgerPrefix+s.ID.String(), s.ledgerMemory.file)
}

// refresh gives the vault what it lacks of the segments that it has to keep: a keeper that was started anew has nothing.
// kept returns these segments; none of them is freed while refresh runs, because forget waits.
func (k *Kept) refresh(ctx context.Context, kept func() []*segment) {
	k.mu.Lock()
	defer k.mu.Unlock()
	segments := kept()
	names, err := k.vault.Names(ctx)
	if err != nil {
		var v vault.Vault
		if v, err = k.open(ctx, true); v != nil {
			_ = k.vault.Close() // It does not answer.
			k.vault = v
			names, err = v.Names(ctx)
		} else if err == nil {
			err = errors.New("it is not there")
		}
	}
	for i := 0; i < len(segments) && err == nil; i++ {
		s := segments[i]
		if id := s.ID.String(); !slices.Contains(names, memoryPrefix+id) || !slices.Contains(names, ledgerPrefix+id) {
			err = k.give(ctx, s)
		}
	}
	switch {
	case err != nil && !k.lost:
		k.log.Error("the memory of this store is not kept any more: its objects are lost when this process ends", "vault", k.vault.String(), "error", err)
	case err == nil && k.lost:
		k.log.Info("the memory of this store is kept again", "vault", k.vault.String())
	}
	k.lost = err != nil
}

// drop makes the vault forget a segment: first the ledger, without which the memory is not used again.
func (k *Kept) drop(ctx context.Context, id model.SegmentID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.vault.Drop(ctx, ledgerPrefix+id.String()); err != nil {
		return err
	}
	return k.vault.Drop(ctx, memoryPrefix+id.String())
}

// Memory that is kept lies where neither the kernel nor the runtime of Go put anything by themselves, so that the
// next process can map it at the same address: what peers were told about objects holds then. An address is chosen
// at random, so that two segments of all times hardly ever share one. On a machine with a smaller address space the kernel
// chooses.
const (
	keptFrom = 0x4100_0000_0000
	keptTo   = 0x5000_0000_0000
	keptStep = 1 << 30
)

func keptAddress() uint64 { return keptFrom + rand.Uint64N((keptTo-keptFrom)/keptStep)*keptStep }

// leastKept and mostKept say into which pieces memory that is kept is divided: of at least leastKept bytes, and no
// more than mostKept of them. When the size of a store changes, whole pieces stay.
const (
	leastKept = 1 << 30
	mostKept  = 64
)

func keptPiece(total uint64) uint64 {
	return max(leastKept, (total/mostKept+leastKept-1)/leastKept*leastKept)
}
