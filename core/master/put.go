package master

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/mooncake-go/mooncake/core/master/grants"
	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/placement"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	opPutStart = "master: put start"
	// maxPreferred bounds the preferred segments of one call.
	maxPreferred = 1024
	// maxGroup bounds the name of a group, in bytes.
	maxGroup = 1 << 10
)

// PutStart allocates space for objects and enters them as being written.
func (s *Service) PutStart(ctx context.Context, caller model.Caller, items []model.PutItem, cfg model.ReplicateConfig, _ *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	if err := s.admit(ctx, opPutStart, len(items)); err != nil {
		return nil, err
	}
	if err := s.checkPut(caller.Client, cfg); err != nil {
		return nil, err
	}
	c, err := s.scopedWrite(opPutStart, caller)
	if err != nil {
		return nil, err
	}
	p := s.newPut(caller, c, items, cfg)
	defer s.table.Writers.Leave(p.writer)
	s.table.BeginCall()
	p.admit()
	p.charge(ctx)
	p.run(ctx)
	p.await(ctx)
	p.settle()
	if err := ctx.Err(); err != nil {
		p.takeBack(ctx)
		s.counters.PutStart.Done(len(items), len(items))
		return nil, errs.Wrap(errs.RPCTimeout, opPutStart, err)
	}
	failed := 0
	for i := range p.out {
		if p.out[i].Err != nil {
			failed++
		} else {
			s.counters.ValueSizes.Observe(items[i].Size)
		}
	}
	s.counters.PutStart.Done(len(items), failed)
	s.feed(ctx)
	grants.For(ctx, s.registry).Allocations(p.out, s.clock.Now().Add(s.cfg.PutReleaseTimeout))
	return p.out, nil
}

func (s *Service) checkPut(client model.ClientID, cfg model.ReplicateConfig) error {
	switch pin := cfg.SoftPin; {
	case client.IsZero():
		return errs.New(errs.InvalidParams, opPutStart, "the client ID is zero")
	case cfg.ReplicaNum == 0:
		return errs.New(errs.InvalidParams, opPutStart, "the number of copies is 0; it must be at least 1")
	case len(cfg.PreferredSegments) > maxPreferred:
		return errs.New(errs.InvalidParams, opPutStart, "%d preferred segments are named; the most is %d", len(cfg.PreferredSegments), maxPreferred)
	case pin.Action > model.SoftPinDisable:
		return errs.New(errs.InvalidParams, opPutStart, "the soft pin action is %d; it must be 0 to %d", pin.Action, model.SoftPinDisable)
	case pin.TTL != nil && pin.Action != model.SoftPinEnable:
		return errs.New(errs.InvalidParams, opPutStart, "a time is given for a soft pin that is not to be enabled")
	case pin.TTL != nil && (*pin.TTL < 0 || *pin.TTL > s.cfg.MaxSoftPinTTL):
		return errs.New(errs.InvalidParams, opPutStart, "the soft pin is to last %s; the most is %s (max_kv_soft_pin_ttl)", *pin.TTL, s.cfg.MaxSoftPinTTL)
	case cfg.DataType < 0 || cfg.DataType > model.DataGeneral:
		return errs.New(errs.InvalidParams, opPutStart, "the data type is %d; it must be 0 to %d", cfg.DataType, model.DataGeneral)
	}
	return nil
}

func (s *Service) softTTL(pin model.SoftPin) time.Duration {
	switch {
	case pin.Action != model.SoftPinEnable:
		return 0
	case pin.TTL != nil:
		return *pin.TTL
	}
	return s.cfg.SoftPinTTL
}

// maxRounds bounds how often one call evicts and asks the allocator again.
const maxRounds = 8

// maxPatience bounds how often one call waits for nodes that are behind with their ledgers, ackTimeout each time, because
// nothing can be evicted elsewhere.
const maxPatience = 2

// put is one PutStart call in progress.
type put struct {
	s      *Service
	scope  scope
	client objects.Client
	cfg    model.ReplicateConfig
	items  []model.PutItem
	set    objects.Settings // of every item, except the group
	now    lease.Instant
	out    []model.Result[[]model.Replica]
	buf    []model.Replica
	copies int // the number of copies to place, at most as many as there are segment names
	// unused is the part of each item's charge that the tenant does not occupy; nil with one
	// tenant only.
	unused []uint64
	split  uint64 // the number of stripes of large items
	plain  bool   // the writer is a client of upstream

	// todo are the items that still need space.
	todo []int
	// writer is the client's account, and reserved what of it belongs to items that have not begun.
	writer   *segments.Writer
	reserved segments.Caps
	// touched are the segments whose ledgers learn of the put.
	touched touched
}

func (s *Service) newPut(caller model.Caller, c scope, items []model.PutItem, cfg model.ReplicateConfig) *put {
	client, writer := s.table.Writer(caller.Client)
	return &put{
		s: s, scope: c, client: client, writer: writer, cfg: cfg, items: items, now: s.clock.Now(), split: 1, plain: caller.Upstream,
		copies: int(min(cfg.ReplicaNum, uint32(max(s.registry.View().Names(), 1)))),
		set:    objects.Settings{HardPin: cfg.HardPin, SoftPin: cfg.SoftPin.Action, SoftTTL: s.softTTL(cfg.SoftPin), DataType: cfg.DataType},
		out:    make([]model.Result[[]model.Replica], len(items)),
		// One backing array for the common case of one copy a key.
		buf: make([]model.Replica, 0, len(items)),
	}
}

// admit refuses items that cannot succeed, serves upserts that need no new space, and leaves the
// rest in todo.
func (p *put) admit() {
	view := p.s.registry.View()
	var seen map[model.Key]bool
	if p.cfg.Upsert && len(p.items) > 1 {
		seen = make(map[model.Key]bool, len(p.items))
	}
	before := objects.Handle(0)
	for i, it := range p.items {
		switch err := p.check(it); {
		case err != nil:
			p.out[i].Err = err
		case seen[it.Key]:
			p.out[i].Err = keyError(errs.InvalidParams, errs.ClassPermanent, opPutStart, it.Key, "an upsert names it twice in one call")
		case p.cfg.Upsert:
			if seen != nil {
				seen[it.Key] = true
			}
			p.overwrite(i, view)
		default:
			at, out := p.s.table.CanPut(p.scope.name(it.Key), p.now, p.s.cfg.PutDiscardTimeout, before)
			before = at
			if out != objects.Done {
				p.out[i].Err = outcomeError(out, opPutStart, it.Key)
				continue
			}
			p.queue(i, view)
		}
	}
}

// queue adds an item that needs space to todo. It refuses an item that can never get space, so that
// nothing is evicted for it.
func (p *put) queue(i int, v *segments.View) {
	size, pinned := p.items[i].Size, p.s.table.HardPinnedBytes()
	// If only the pins prevent it, the same put may succeed later.
	text, class := "", errs.ClassPermanent
	switch {
	case len(v.Open) == 0: // Eviction would not help.
	case size > v.OpenBytes:
		text = fmt.Sprintf("it has %d bytes, but the whole pool has %d where objects can go", size, v.OpenBytes)
	case p.plain && v.LargestPlain == 0:
		text = "no mounted segment is one that upstream's clients reach, by tcp or rdma"
	case p.plain && p.pieceSize(i, v) == 0:
		text = fmt.Sprintf("it has %d bytes; the largest segment that upstream's clients reach has %d, and they write an object in one piece", size, v.LargestPlain)
	case p.pieceSize(i, v) == 0:
		text = fmt.Sprintf("it has %d bytes, too many for %d pieces of at most %d bytes", size, placement.MaxPieces, v.Largest)
	case size > v.Capacity-min(pinned, v.Capacity):
		text = fmt.Sprintf("there is no space for its %d bytes: %d of the pool's %d are pinned and never evicted", size, pinned, v.Capacity)
		class = errs.ClassUnknown
	}
	if text == "" {
		if p.reserve(i, v) {
			p.todo = append(p.todo, i)
		}
		return
	}
	p.s.counters.AllocFailures.Add(1)
	p.out[i].Err = errs.WithHint(keyError(errs.NoAvailableHandle, class, opPutStart, p.items[i].Key, text),
		"store it in parts, add segments, or remove pinned objects")
}

// reserve takes an item into the account of its client. It reports whether the item keeps to the caps, and refuses it
// otherwise.
func (p *put) reserve(i int, v *segments.View) bool {
	caps := segments.Caps{Puts: p.s.cfg.MaxOpenPuts, Bytes: uint64(p.s.cfg.MaxOpenRatio * float64(v.Capacity))}
	bytes := times(p.items[i].Size, p.copies)
	over := p.writer.Reserve(bytes, caps)
	if over == nil {
		p.reserved.Puts++
		p.reserved.Bytes += bytes
		return true
	}
	text := fmt.Sprintf("this client has %d unfinished puts, the most that one may have (max_open_puts_per_client)", over.Puts)
	if !over.ByPuts {
		text = fmt.Sprintf("the unfinished puts of this client occupy %d bytes, and with this one they would exceed %d, the share of the pool that one client may take (max_open_ratio_per_client)",
			over.Bytes, caps.Bytes)
	}
	p.s.counters.Capped.Add(1)
	p.out[i].Err = errs.WithHint(keyError(errs.NoAvailableHandle, errs.ClassUnknown, opPutStart, p.items[i].Key, text), "end or revoke some puts, then try again")
	return false
}

// begun takes an item that began out of what is reserved: the table accounts for it now.
func (p *put) begun(i int) {
	bytes := times(p.items[i].Size, p.copies)
	p.reserved.Puts--
	p.reserved.Bytes -= bytes
	p.writer.Add(-1, -int64(bytes))
}

func (p *put) check(it model.PutItem) error {
	switch err := validKey(opPutStart, it.Key); {
	case err != nil:
		return err
	case it.Size == 0:
		return keyError(errs.InvalidParams, errs.ClassPermanent, opPutStart, it.Key, "its size is 0; an object has at least 1 byte")
	case len(it.Group) > maxGroup:
		return errs.New(errs.InvalidParams, opPutStart, "%q: the group's name has %d bytes; the most is %d", short(it.Key), len(it.Group), maxGroup)
	}
	return nil
}

// overwrite begins an upsert in place if that is possible.
func (p *put) overwrite(i int, v *segments.View) {
	// An upsert in place costs the tenant nothing, but needs the right to write.
	if err := p.s.mayWrite(p.scope); err != nil {
		p.deny(i, err)
		return
	}
	if !p.reserve(i, v) {
		return
	}
	head := len(p.buf)
	n := p.object(i, nil)
	var out objects.Outcome
	p.buf, out = p.s.table.Overwrite(&n, p.copies, p.now, p.buf)
	p.begun(i)
	switch out {
	case objects.Done:
		p.s.counters.Upserts.Add(1)
		p.s.counters.UpsertsInPlace.Add(1)
		p.s.announceOverwritten(n.Key, n.Settings.Group)
		p.touch(p.buf[head:])
		p.out[i].Value = p.buf[head:len(p.buf):len(p.buf)]
	case objects.NeedsSpace:
		p.queue(i, v)
	default:
		p.out[i].Err = outcomeError(out, opPutStart, p.items[i].Key)
	}
}

// charge charges the tenant and removes the items that exceed its quota from todo.
func (p *put) charge(ctx context.Context) {
	if !p.scope.on {
		return
	}
	p.unused = make([]uint64, len(p.items))
	rest := p.todo[:0]
	for _, i := range p.todo {
		bytes := times(p.items[i].Size, p.copies)
		if err := p.s.charge(ctx, p.scope, bytes); err != nil {
			p.deny(i, err)
			continue
		}
		p.unused[i] = bytes
		rest = append(rest, i)
	}
	p.todo = rest
}

// settle refunds the charge for copies that were not made, and what items have reserved that did not begin.
func (p *put) settle() {
	p.writer.Add(-p.reserved.Puts, -int64(p.reserved.Bytes))
	for _, bytes := range p.unused {
		p.s.refund(p.scope, bytes)
	}
}

// times multiplies. On overflow it returns the largest number, which exceeds any quota.
func times(size uint64, copies int) uint64 {
	if high, low := bits.Mul64(size, uint64(copies)); high == 0 {
		return low
	}
	return math.MaxUint64
}

// deny refuses an item that its tenant may not write.
func (p *put) deny(i int, err error) {
	p.out[i].Err = errs.Wrap(errs.CodeOf(err), opPutStart+" "+short(p.items[i].Key), err)
}

// run allocates, and evicts what is missing, until all items have space or no more space can be
// freed.
func (p *put) run(ctx context.Context) {
	var full *shortage
	fragmented := -1 // how often memory was evicted and confirmed, beyond the first time, and did not suffice
	patience := maxPatience
	for round := 0; len(p.todo) > 0; round++ {
		if err := p.allocate(ctx); err != nil {
			p.s.counters.AllocFailures.Add(len(p.todo))
			p.refuse(errs.WithHint(errs.Wrap(errs.NoAvailableHandle, opPutStart, err), "the allocator is not available; try again"))
			return
		}
		if len(p.todo) == 0 {
			return
		}
		if full == nil {
			full = &shortage{}
		}
		full.missing = p.missing()
		if round == maxRounds || len(p.s.registry.View().Open) == 0 || ctx.Err() != nil {
			break
		}
		// Evict exactly what is missing, so that no object is evicted without need. If the
		// allocation fails twice, the free memory is too fragmented. Then evict more, and cut
		// larger objects into stripes, as is done if nothing can be evicted. Memory that a ledger
		// has yet to confirm is no sign of that.
		if !p.s.makeSpace(ctx, full, full.missing<<max(fragmented, 0)) && !p.cut() {
			if some, _ := p.s.awaitFrees(ctx, true); !some || patience == 0 {
				break
			}
			patience--
			continue
		}
		if _, all := p.s.awaitFrees(ctx, false); all {
			if fragmented++; fragmented > 0 {
				p.cut()
			}
		}
	}
	if len(p.todo) > 0 {
		p.s.counters.AllocFailures.Add(len(p.todo))
		p.refuse(p.s.explain(ctx, full))
	}
}

// Items are placed in 1, then 4, then 16 pieces, of at least minPiece bytes each.
const (
	splitFactor = 4
	maxSplit    = 16
	minPiece    = 64 << 10
)

// cut places large items in more pieces than before. It reports whether that changes any item.
func (p *put) cut() bool {
	if p.plain || p.split == maxSplit {
		return false
	}
	was := p.split
	p.split *= splitFactor
	for _, i := range p.todo {
		if p.items[i].Size/was > minPiece {
			return true
		}
	}
	return false
}

// missing returns how many bytes the items without space need.
func (p *put) missing() (n uint64) {
	for _, i := range p.todo {
		n += p.items[i].Size
	}
	return n
}

func (p *put) refuse(err error) {
	for _, i := range p.todo {
		p.out[i].Err = err
	}
	p.todo = nil
}

// takeBack revokes the items that got memory. The caller has left and will never learn where they
// lie, so no client writes there, and the memory is free at once.
func (p *put) takeBack(ctx context.Context) {
	p.revoke(ctx, func(int) bool { return true })
}

// revoke revokes the items that got memory and that match selects. Their writer does not know where they lie.
func (p *put) revoke(ctx context.Context, match func(i int) bool) {
	p.s.pool.Enter()
	defer p.s.pool.Leave()
	var bin objects.Bin
	for i := range p.out {
		if replicas := p.out[i].Value; len(replicas) > 0 && match(i) {
			p.s.table.Revoke(p.scope.name(p.items[i].Key), replicas[0].ID, p.client, &bin)
		}
	}
	p.s.reclaim(ctx, &bin, history.PutRevoked, true)
}

// touch notes the segments of an object.
func (p *put) touch(replicas []model.Replica) {
	for i := range replicas {
		for _, part := range replicas[i].Parts {
			if m := p.s.registry.Get(part.SegmentID); m != nil {
				p.touched.add(m)
			}
		}
	}
}

// await waits until the ledgers know where the items lie and what they displaced. So a master that comes after this
// one knows every writer that was answered. An item in a segment whose node does not confirm in time fails.
func (p *put) await(ctx context.Context) {
	if p.cfg.Upsert || p.wentLately() {
		for m := range p.s.unsettled() {
			p.touched.add(m)
		}
	}
	late, err := p.s.await(ctx, p.touched, nil)
	if late == nil {
		return
	}
	p.s.health.Tick(p.s.clock.Now()) // Before the client tries again.
	failed := func(i int) bool { return late.has(p.out[i].Value) }
	p.revoke(ctx, failed)
	for i := range p.out {
		if failed(i) {
			p.s.counters.AllocFailures.Add(1)
			p.out[i].Value, p.out[i].Err = nil, lateError(opPutStart+" "+short(p.items[i].Key), late, err)
		}
	}
}

// wentLately reports whether a key that begins had a value a moment ago, which went for another reason than an upsert: its
// ledger may not know yet, and a master that comes after this one would bring it back.
func (p *put) wentLately() bool {
	for i := range p.out {
		if len(p.out[i].Value) == 0 {
			continue
		}
		gone, ok := p.s.history.Look(p.s.table.Print(p.scope.name(p.items[i].Key)))
		if ok && p.now.Sub(gone.When) < p.s.cfg.ClientTTL {
			return true
		}
	}
	return false
}

// short cuts a key for a message.
func short(key string) string { return key[:min(len(key), 128)] }
