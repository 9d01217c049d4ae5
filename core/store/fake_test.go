package store_test

import (
	"context"
	"regexp"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// ledger is a master with everything that clients may ask for and nothing that they cannot
// see: it never evicts, never reuses memory and never forgets. Striping is by a fixed size.
type ledger struct {
	stripe uint64 // 0 does not stripe
	lease  time.Duration

	mu      sync.Mutex
	segs    []*ledgerSegment
	graces  []time.Duration          // of each unmount
	objects map[string]*ledgerObject // by tenant and key
	open    map[string]*ledgerObject // puts in progress
	copies  map[string]*ledgerCopy
	tasks   []*model.Task
	known   map[model.ClientID]bool
	reports map[string]model.PeerReport // totals, by endpoint
	full    int                         // how many more copies find no space
	ids     uint64
}

type ledgerSegment struct {
	model.Segment
	client model.ClientID
	next   uint64
}

type ledgerObject struct {
	owner model.ClientID
	key   model.Key
	group string
	obj   model.Object
}

type ledgerCopy struct {
	kind model.CopyKind
	plan model.CopyPlan
}

func newLedger() *ledger {
	return &ledger{
		lease: 5 * time.Second, objects: map[string]*ledgerObject{}, open: map[string]*ledgerObject{}, copies: map[string]*ledgerCopy{},
		known: map[model.ClientID]bool{}, reports: map[string]model.PeerReport{},
	}
}

var _ store.Master = (*ledger)(nil)

func code(c errs.Code) error { return errs.New(c, "ledger", "refused") }

func at(c model.Caller, k model.Key) string {
	if c.Tenant == "" {
		c.Tenant = model.DefaultTenant
	}
	return c.Tenant + "\x00" + k
}

func (l *ledger) Ready(context.Context) (string, error) { return "ledger", nil }

func (l *ledger) MountSegment(_ context.Context, c model.ClientID, s model.Segment) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[c] = true
	for _, there := range l.segs {
		if there.ID == s.ID { // A ping from before the mount may have it mounted again.
			return nil
		}
	}
	l.segs = append(l.segs, &ledgerSegment{Segment: s, client: c})
	return nil
}

func (l *ledger) RemountSegments(ctx context.Context, c model.ClientID, segs []model.Segment) error {
	for _, s := range segs {
		_ = l.MountSegment(ctx, c, s)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[c] = true
	return nil
}

// errPlain says that this master keeps no ledgers.
var errPlain = errs.New(errs.NotSupported, "", "this master keeps no ledgers")

func (l *ledger) Attach(context.Context, model.ClientID, []model.LedgerState) (model.Attached, error) {
	return model.Attached{}, errPlain
}

func (l *ledger) Report(context.Context, model.ClientID, model.LedgerReport) error { return errPlain }

func (l *ledger) Follow(context.Context, string) error { return errPlain }

func (l *ledger) Pull(context.Context, model.ClientID, uint64, []model.LedgerAck) (model.Pulled, error) {
	return model.Pulled{}, errPlain
}

// told returns the grace of each unmount so far.
func (l *ledger) told() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.graces)
}

func (l *ledger) UnmountSegment(_ context.Context, _ model.ClientID, id model.SegmentID, grace time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.graces = append(l.graces, grace)
	for i, s := range l.segs {
		if s.ID == id {
			l.segs = append(l.segs[:i:i], l.segs[i+1:]...)
			break
		}
	}
	for k, o := range l.objects {
		for _, r := range o.obj.Replicas {
			if r.SegmentID == id && grace == 0 {
				delete(l.objects, k)
			}
		}
	}
	return nil
}

func (l *ledger) Ping(_ context.Context, c model.ClientID, r model.PingReport) (model.PingReply, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range r.Peers {
		sum := l.reports[p.Endpoint]
		sum.Done, sum.Failed, sum.Bytes, sum.Busy = sum.Done+p.Done, sum.Failed+p.Failed, sum.Bytes+p.Bytes, sum.Busy+p.Busy
		l.reports[p.Endpoint] = sum
	}
	if !l.known[c] {
		return model.PingReply{Status: model.ClientNeedRemount}, nil
	}
	return model.PingReply{Status: model.ClientOK}, nil
}

func (l *ledger) report(endpoint string) model.PeerReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reports[endpoint]
}

func (l *ledger) Segments(context.Context) ([]model.SegmentInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []model.SegmentInfo
	for _, s := range l.segs {
		out = append(out, model.SegmentInfo{Segment: s.Segment, Client: s.client, Status: model.SegmentOK, Used: s.next})
	}
	return out, nil
}

func (l *ledger) QueryHosts(context.Context, []model.ClientID) (map[model.ClientID][]string, error) {
	return nil, code(errs.NotSupported)
}

// place allocates one copy, starting with the i-th segment.
func (l *ledger) place(size uint64, i int) (model.Replica, bool) {
	l.ids++
	r := model.Replica{ID: l.ids, Status: model.ReplicaProcessing}
	for first := true; size > 0; i++ {
		n := size
		if l.stripe > 0 {
			n = min(n, l.stripe)
		}
		if len(l.segs) == 0 {
			return r, false
		}
		s := l.segs[i%len(l.segs)]
		if s.next+n > s.Size {
			return r, false
		}
		p := model.Part{SegmentID: s.ID, Segment: s.Name, Endpoint: s.Endpoint, Protocol: s.Protocol, Address: s.Base + s.next, Size: n}
		s.next += n
		size -= n
		if first {
			r.Part, first = p, false
		} else {
			r.More = append(r.More, p)
		}
	}
	return r, true
}

func (l *ledger) PutStart(_ context.Context, c model.Caller, items []model.PutItem, cfg model.ReplicateConfig, _ *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]model.Result[[]model.Replica], len(items))
	for i, it := range items {
		k := at(c, it.Key)
		switch old := l.objects[k]; {
		case l.open[k] != nil && !cfg.Upsert, old != nil && !cfg.Upsert:
			out[i].Err = code(errs.ObjectAlreadyExists)
			continue
		case l.copies[k] != nil:
			out[i].Err = code(errs.ObjectHasReplicationTask)
			continue
		case old != nil && old.group != it.Group:
			out[i].Err = code(errs.InvalidParams)
			continue
		}
		o := &ledgerObject{owner: c.Client, key: it.Key, group: it.Group, obj: model.Object{Size: it.Size, LeaseTTL: l.lease}}
		for n := range min(int(cfg.ReplicaNum), max(len(l.segs), 1)) {
			r, ok := l.place(it.Size, n)
			if !ok {
				out[i].Err = code(errs.NoAvailableHandle)
				break
			}
			o.obj.Replicas = append(o.obj.Replicas, r)
		}
		if out[i].Err == nil {
			out[i].Value = append([]model.Replica{}, o.obj.Replicas...)
			l.open[k] = o
		}
	}
	return out, nil
}

func (l *ledger) PutEnd(_ context.Context, c model.Caller, items []model.EndItem, _ []error) ([]error, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]error, len(items))
	for i, it := range items {
		o := l.open[at(c, it.Key)]
		switch {
		case o == nil:
			out[i] = code(errs.ObjectNotFound)
		case o.obj.Replicas[0].ID != it.Put:
			out[i] = code(errs.InvalidWrite)
		default:
			o.obj.Checksum, o.obj.Grains = it.Checksum, append([]uint32(nil), it.Grains...)
			delete(l.open, at(c, it.Key))
			l.objects[at(c, it.Key)] = o
		}
	}
	return out, nil
}

func (l *ledger) PutRevoke(_ context.Context, c model.Caller, items []model.RevokeItem) ([]error, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, it := range items {
		if o := l.open[at(c, it.Key)]; o != nil && o.obj.Replicas[0].ID == it.Put {
			delete(l.open, at(c, it.Key))
		}
	}
	return make([]error, len(items)), nil
}

func (l *ledger) Exist(_ context.Context, c model.Caller, keys []model.Key) ([]model.Result[bool], error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]model.Result[bool], len(keys))
	for i, k := range keys {
		out[i].Value = l.objects[at(c, k)] != nil
	}
	return out, nil
}

func (l *ledger) GetReplicas(_ context.Context, c model.Caller, keys []model.Key, into *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]model.Result[model.Object], len(keys))
	for i, k := range keys {
		switch o := l.objects[at(c, k)]; {
		case o != nil:
			if out[i].Value = o.obj; into == nil || !into.WithGrains {
				out[i].Value.Grains = nil
			}
			out[i].Value.Replicas = append([]model.Replica{}, o.obj.Replicas...)
		case l.open[at(c, k)] != nil:
			out[i].Err = code(errs.ReplicaIsNotReady)
		default:
			out[i].Err = code(errs.ObjectNotFound)
		}
	}
	return out, nil
}

// match returns the keys of a tenant that contain a match, sorted.
func (l *ledger) match(c model.Caller, expr string) []model.Key {
	re, prefix := regexp.MustCompile(expr), at(c, "")
	var keys []model.Key
	for k, o := range l.objects {
		if k == prefix+o.key && re.MatchString(o.key) {
			keys = append(keys, o.key)
		}
	}
	sort.Strings(keys)
	return keys
}
