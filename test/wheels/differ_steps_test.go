package wheels

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// steps are what a history is made of, as far as the version has it.
func (h *history) steps() map[string]func(*rapid.T) {
	all := map[string]func(*rapid.T){
		"mount": h.doMount, "remount": h.doRemount, "unmount": h.doUnmount, "ping": h.doPing, "query ips": h.doQueryIPs,
		"put start": h.doPutStart, "put start 2": h.doPutStart, "put end": h.doPutEnd, "put end 2": h.doPutEnd, "put revoke": h.doPutRevoke,
		"put": h.doPut, "batch put": h.doPut,
		"batch put start": h.doBatchPutStart, "batch put end": h.doBatchPutEnd, "batch put revoke": h.doBatchPutRevoke,
		"exist": h.doExist, "batch exist": h.doBatchExist, "get": h.doGet, "batch get": h.doBatchGet, "get by regex": h.doGetByRegex,
		"remove": h.doRemove, "remove by regex": h.doRemoveByRegex, "remove all": h.doRemoveAll, "clear": h.doClear, "wait": h.doWait,
		"copy start": h.doCopyStart, "copy end": h.doCopyEnd, "move start": h.doMoveStart,
		"copy task": h.doCopyTask, "move task": h.doMoveTask, "fetch tasks": h.doFetch, "query task": h.doQueryTask, "complete task": h.doComplete,
	}
	if h.v >= calls.V10 {
		all["upsert start"], all["upsert end"], all["upsert revoke"] = h.doUpsertStart, h.doUpsertEnd, h.doUpsertRevoke
		all["batch upsert start"], all["batch upsert end"], all["batch upsert revoke"] = h.doBatchUpsertStart, h.doBatchUpsertEnd, h.doBatchUpsertRevoke
		all["upsert"] = h.doUpsert
		all["batch remove"] = h.doBatchRemove
	}
	if h.v >= calls.V11 {
		all["segment status"] = h.doStatus
	}
	return all
}

// What steps choose from.

func (h *history) client(rt *rapid.T) model.ClientID {
	return rapid.SampledFrom([]model.ClientID{h.clients[0], h.clients[0], h.clients[0], h.clients[1], h.clients[1], h.clients[2]}).Draw(rt, "client")
}

const keys = 4

func (h *history) keyOf(i int) string { return fmt.Sprintf("h%d/%d", h.serial, i) }

func (h *history) key(rt *rapid.T) string {
	i := rapid.IntRange(0, 3*keys+1).Draw(rt, "key")
	if i == 3*keys {
		return ""
	}
	return h.keyOf(i % keys)
}

func (h *history) keys(rt *rapid.T, distinct bool) []string {
	n := rapid.IntRange(0, 4).Draw(rt, "keys")
	var list []string
	for range n {
		if k := h.key(rt); !distinct || !slices.Contains(list, k) {
			list = append(list, k)
		}
	}
	return list
}

func (h *history) slot(rt *rapid.T) int { return rapid.IntRange(0, segments-1).Draw(rt, "segment") }

// segmentName is mostly one of the history.
func (h *history) segmentName(rt *rapid.T) string {
	if i := rapid.IntRange(0, 4*segments).Draw(rt, "segment name"); i < 4*segments {
		return h.name(i % segments)
	}
	return "10.0.0.0:1"
}

// fits is a size for which there is always space.
const fits = 100_000

// size is one that fits, one that fits nowhere, or once in a history one that takes half a segment: where another does not
// fit, our master evicts, and it holds memory that a client may be using.
func (h *history) size(rt *rapid.T) uint64 {
	sizes := []uint64{1, 100, 4096, fits, fits, segmentSize + 1, 1 << 50, 0}
	if !h.large {
		sizes = append(sizes, segmentSize/16*9)
	}
	n := rapid.SampledFrom(sizes).Draw(rt, "size")
	h.large = h.large || n == segmentSize/16*9
	return n
}

// config prefers all segments, in some order, so that both masters choose the same.
func (h *history) config(rt *rapid.T) calls.ReplicateConfig {
	names := []string{h.name(0), h.name(1), h.name(2)}
	c := calls.ReplicateConfig{
		Replicas:          rapid.SampledFrom([]uint64{1, 1, 1, 1, 2, 2, 3, 0}).Draw(rt, "replicas"),
		PreferredSegments: rapid.Permutation(names).Draw(rt, "preferred"),
	}
	switch rapid.IntRange(0, 9).Draw(rt, "how") {
	case 0:
		c.SoftPin = calls.SoftPinEnable
	case 1:
		c.HardPin = h.v >= calls.V10
	case 2:
		if h.v >= calls.V13 {
			c.SoftPin = rapid.SampledFrom([]calls.SoftPin{0, 1, 2}).Draw(rt, "soft pin")
			c.SoftPinTTL = calls.Optional[uint64]{Present: true, Value: rapid.SampledFrom([]uint64{0, 1000, 1 << 62}).Draw(rt, "ttl")}
		}
	case 3:
		if h.v >= calls.V11 {
			c.DataType = rapid.SampledFrom([]uint8{0, 1, 9, 10, 255}).Draw(rt, "type")
		}
	case 4:
		if h.v >= calls.V12 {
			g := rapid.SliceOfN(rapid.SampledFrom([]string{"g", "", "f"}), 0, 4).Draw(rt, "groups")
			c.Groups = calls.Optional[[]string]{Present: true, Value: g}
		}
	case 5:
		c.PreferredSegments = append([]string{"10.0.0.0:1", c.PreferredSegments[0]}, c.PreferredSegments...)
	}
	return c
}

// replicaType is what clients send of puts in memory.
func (h *history) replicaType(rt *rapid.T) calls.ReplicaType {
	if h.v >= calls.V11 && rapid.Bool().Draw(rt, "all") {
		return calls.TypeAll
	}
	return calls.TypeMemory
}

// Segments.

func (h *history) mount(i int) {
	q := calls.MountSegmentRequest{Segment: h.segment(i), Client: h.owner(i)}
	if ask(h, calls.MountSegment, q, nil).Code == errs.OK {
		h.mounted[i] = true
	}
}

func (h *history) doMount(rt *rapid.T) {
	i := h.slot(rt)
	q := calls.MountSegmentRequest{Segment: h.segment(i), Client: h.owner(i)}
	switch rapid.IntRange(0, 9).Draw(rt, "how") {
	case 0:
		q.Segment.Base = 0
		q.Segment.ID.Hi++
	case 1:
		q.Segment.Size = 0
		q.Segment.ID.Hi++
	}
	if ask(h, calls.MountSegment, q, nil).Code == errs.OK {
		h.mounted[i] = true
	}
}

func (h *history) doRemount(rt *rapid.T) {
	who := rapid.IntRange(0, 1).Draw(rt, "client")
	var q calls.ReMountSegmentRequest
	q.Client = h.clients[who]
	for i := range segments {
		if i%2 == who && (h.mounted[i] || !h.remounted[who] && rapid.Bool().Draw(rt, "new")) {
			q.Segments = append(q.Segments, h.segment(i))
		}
	}
	if ask(h, calls.ReMountSegment, q, nil).Code == errs.OK {
		h.remounted[who] = true
		for i := range segments {
			h.mounted[i] = h.mounted[i] || slices.ContainsFunc(q.Segments, func(s calls.Segment) bool { return s.Name == h.name(i) })
		}
	}
}

func (h *history) doUnmount(rt *rapid.T) {
	for _, o := range h.things {
		if o.copied {
			rt.Skip("0.3.9 keeps the targets of a copy whose source went")
		}
	}
	i := h.slot(rt)
	q := calls.UnmountSegmentRequest{Segment: h.segment(i).ID, Client: h.owner(i)}
	if rapid.IntRange(0, 5).Draw(rt, "other") == 0 {
		q.Segment.Hi += 1 << 40
	}
	if ask(h, calls.UnmountSegment, q, nil).Code == errs.OK && q.Segment == h.segment(i).ID {
		h.mounted[i] = false
	}
	for _, o := range h.things {
		o.changed = true
	}
	h.waitSwept()
}

// waitSwept waits until upstream's master has no object any more whose replicas went with their segment.
func (h *history) waitSwept() {
	if h.lost {
		return
	}
	var list []string
	for i := range keys {
		list = append(list, h.keyOf(i))
	}
	h.granting(func() {
		q := calls.BatchGetReplicaListRequest{Keys: list, Tenant: tenant}
		for end := time.Now().Add(2 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			theirs, ours := h.both("BatchGetReplicaList", func(s *standin) (any, error) { return call(s, calls.BatchGetReplicaList, &q) })
			a, b := theirs.([]calls.Expected[calls.ReplicaList]), ours.([]calls.Expected[calls.ReplicaList])
			same := true
			for i := range a {
				same = same && a[i].Code == b[i].Code
			}
			if same || time.Now().After(end) {
				break
			}
		}
		ask(h, calls.BatchGetReplicaList, q, each(blurReplicas))
	})
}

func (h *history) doPing(rt *rapid.T) {
	q := calls.PingRequest{Client: h.client(rt)}
	ask(h, calls.Ping, q, func(r *calls.Expected[calls.PingResponse]) {
		r.Value.View = 0
		// Ours knows a client that has mounted. Upstream's has it remount.
		if i := slices.Index(h.clients, q.Client); i < 2 && !h.remounted[i] && r.Value.Status == calls.ClientNeedRemount {
			r.Value.Status = calls.ClientOK
		}
	})
}

func (h *history) doQueryIPs(rt *rapid.T) {
	q := calls.BatchQueryIPRequest{Clients: rapid.SliceOfNDistinct(rapid.SampledFrom(h.clients), 0, 3, rapid.ID).Draw(rt, "clients")}
	ask(h, calls.BatchQueryIP, q, func(r *calls.Expected[[]calls.ClientIPs]) {
		slices.SortFunc(r.Value, func(a, b calls.ClientIPs) int { return cmp.Compare(a.Client.Lo, b.Client.Lo) })
		for i := range r.Value {
			slices.Sort(r.Value[i].IPs)
		}
		if len(r.Value) == 0 {
			r.Value = nil
		}
	})
}

func (h *history) doStatus(rt *rapid.T) {
	if rapid.Bool().Draw(rt, "by name") {
		ask(h, calls.QuerySegmentStatus, calls.QuerySegmentStatusRequest{Segment: h.segmentName(rt)}, nil)
		return
	}
	ask(h, calls.QuerySegmentStatusByID, calls.QuerySegmentStatusByIDRequest{Segment: h.segment(h.slot(rt)).ID}, nil)
}

// Puts.

// startedKey remembers what a put made of a key.
func (h *history) startedKey(key string, c *calls.ReplicateConfig, r calls.Expected[[]calls.Descriptor]) {
	if r.Code == errs.OK {
		h.things[key] = &thing{copies: len(r.Value)}
	}
}

func (h *history) putRequest(rt *rapid.T) calls.PutStartRequest {
	return calls.PutStartRequest{Client: h.client(rt), Key: h.key(rt), Size: h.size(rt), Config: h.config(rt), Tenant: tenant}
}

func (h *history) doPutStart(rt *rapid.T) {
	q := h.putRequest(rt)
	h.startedKey(q.Key, &q.Config, ask(h, calls.PutStart, q, blurStarted))
}

func (h *history) doUpsertStart(rt *rapid.T) {
	q := h.putRequest(rt)
	h.overwriting(&q.Config, []string{q.Key}, []uint64{q.Size})
	h.startedKey(q.Key, &q.Config, ask(h, calls.UpsertStart, q, blurStarted))
}

// doPut puts as most clients do.
func (h *history) doPut(rt *rapid.T) {
	q := calls.PutStartRequest{Client: h.clients[rapid.IntRange(0, 1).Draw(rt, "client")], Key: h.keyOf(rapid.IntRange(0, keys-1).Draw(rt, "key")), Size: 1000, Config: h.config(rt), Tenant: tenant}
	r := ask(h, calls.PutStart, q, blurStarted)
	h.startedKey(q.Key, &q.Config, r)
	if r.Code == errs.OK {
		ask(h, calls.PutEnd, calls.PutEndRequest{Client: q.Client, ObjectMeta: calls.ObjectMeta{Key: q.Key}, Tenant: tenant}, nil)
	}
}

func (h *history) doUpsert(rt *rapid.T) {
	q := calls.PutStartRequest{Client: h.clients[rapid.IntRange(0, 1).Draw(rt, "client")], Key: h.keyOf(rapid.IntRange(0, keys-1).Draw(rt, "key")), Size: 1000, Config: h.config(rt), Tenant: tenant}
	h.overwriting(&q.Config, []string{q.Key}, []uint64{q.Size})
	r := ask(h, calls.UpsertStart, q, blurStarted)
	h.startedKey(q.Key, &q.Config, r)
	if r.Code == errs.OK {
		ask(h, calls.UpsertEnd, calls.PutEndRequest{Client: q.Client, ObjectMeta: calls.ObjectMeta{Key: q.Key}, Tenant: tenant}, nil)
	}
}

// overwriting has upserts of objects that there are ask for what both masters do alike. Upstream's leaves the number of
// replicas as it is if the size is the same, overwrites what is being read, and loses the object if there is no space for it.
func (h *history) overwriting(c *calls.ReplicateConfig, keys []string, sizes []uint64) {
	was := 0
	for i, k := range keys {
		switch o := h.things[k]; {
		case o == nil:
		case sizes[i] > fits, o.changed, was != 0 && was != o.copies:
			h.rt.Skip("the masters differ")
		default:
			was = o.copies
			c.Replicas = uint64(was)
		}
	}
	if was != 0 {
		h.doWait(h.rt)
	}
}

func (h *history) endRequest(rt *rapid.T) calls.PutEndRequest {
	q := calls.PutEndRequest{Client: h.client(rt), ObjectMeta: calls.ObjectMeta{Key: h.key(rt)}, Type: h.replicaType(rt), Tenant: tenant}
	if h.wasCopied(q.Key) {
		rt.Skip("some releases take it for the end of the copy")
	}
	return q
}

func (h *history) revokeRequest(rt *rapid.T) calls.PutRevokeRequest {
	return calls.PutRevokeRequest{Client: h.client(rt), Key: h.key(rt), Type: h.replicaType(rt), Tenant: tenant}
}

func (h *history) doPutEnd(rt *rapid.T) {
	ask(h, calls.PutEnd, h.endRequest(rt), nil)
}

func (h *history) doUpsertEnd(rt *rapid.T) {
	ask(h, calls.UpsertEnd, h.endRequest(rt), nil)
}

func (h *history) doPutRevoke(rt *rapid.T) { ask(h, calls.PutRevoke, h.revokeRequest(rt), nil) }

func (h *history) doUpsertRevoke(rt *rapid.T) { ask(h, calls.UpsertRevoke, h.revokeRequest(rt), nil) }

func (h *history) batchStart(rt *rapid.T, f *calls.Call[calls.BatchPutStartRequest, []calls.Expected[[]calls.Descriptor]]) {
	q := calls.BatchPutStartRequest{Client: h.client(rt), Keys: h.keys(rt, true), Config: h.config(rt), Tenant: tenant}
	for range q.Keys {
		q.Sizes = append(q.Sizes, h.size(rt))
	}
	if h.v >= calls.V12 && rapid.IntRange(0, 9).Draw(rt, "sizes") == 0 {
		q.Sizes = append(q.Sizes, 100)
	}
	if f == calls.BatchUpsertStart {
		h.overwriting(&q.Config, q.Keys, q.Sizes)
	}
	for i, r := range ask(h, f, q, each(blurStarted)) {
		h.startedKey(q.Keys[i], &q.Config, r)
	}
}

func (h *history) doBatchPutStart(rt *rapid.T) { h.batchStart(rt, calls.BatchPutStart) }

func (h *history) doBatchUpsertStart(rt *rapid.T) { h.batchStart(rt, calls.BatchUpsertStart) }

func (h *history) wasCopied(key string) bool { return h.things[key] != nil && h.things[key].copied }

func (h *history) metas(rt *rapid.T) (list []calls.ObjectMeta) {
	for _, k := range h.keys(rt, false) {
		if !h.wasCopied(k) {
			list = append(list, calls.ObjectMeta{Key: k})
		}
	}
	return list
}

func (h *history) doBatchPutEnd(rt *rapid.T) {
	q := calls.BatchPutEndRequest{Client: h.client(rt), Objects: h.metas(rt), Type: h.replicaType(rt), Tenant: tenant}
	ask(h, calls.BatchPutEnd, q, nil)
}

func (h *history) doBatchUpsertEnd(rt *rapid.T) {
	q := calls.BatchUpsertEndRequest{Client: h.client(rt), Objects: h.metas(rt), Tenant: tenant}
	ask(h, calls.BatchUpsertEnd, q, nil)
}

func (h *history) doBatchPutRevoke(rt *rapid.T) {
	q := calls.BatchPutRevokeRequest{Client: h.client(rt), Keys: h.keys(rt, false), Type: h.replicaType(rt), Tenant: tenant}
	ask(h, calls.BatchPutRevoke, q, nil)
}

func (h *history) doBatchUpsertRevoke(rt *rapid.T) {
	ask(h, calls.BatchUpsertRevoke, calls.BatchUpsertRevokeRequest{Client: h.client(rt), Keys: h.keys(rt, false), Tenant: tenant}, nil)
}

// Objects.

func (h *history) doExist(rt *rapid.T) {
	h.granting(func() { ask(h, calls.ExistKey, calls.ExistKeyRequest{Key: h.key(rt), Tenant: tenant}, nil) })
}

func (h *history) doBatchExist(rt *rapid.T) {
	h.granting(func() {
		ask(h, calls.BatchExistKey, calls.BatchExistKeyRequest{Keys: h.keys(rt, false), Tenant: tenant}, nil)
	})
}

func (h *history) doGet(rt *rapid.T) {
	h.granting(func() {
		ask(h, calls.GetReplicaList, calls.GetReplicaListRequest{Key: h.key(rt), Tenant: tenant}, blurReplicas)
	})
}

func (h *history) doBatchGet(rt *rapid.T) {
	h.granting(func() {
		ask(h, calls.BatchGetReplicaList, calls.BatchGetReplicaListRequest{Keys: h.keys(rt, false), Tenant: tenant}, each(blurReplicas))
	})
}

func (h *history) regex(rt *rapid.T) string {
	return rapid.SampledFrom([]string{
		fmt.Sprintf("h%d/[01]", h.serial), fmt.Sprintf("^h%d/", h.serial), "h.*3$", fmt.Sprintf("^h%d/.$", h.serial), "", "0", "(", "[", "nothing",
	}).Draw(rt, "expression")
}

func (h *history) doGetByRegex(rt *rapid.T) {
	h.granting(func() {
		ask(h, calls.GetReplicaListByRegex, calls.GetReplicaListByRegexRequest{Key: h.regex(rt), Tenant: tenant}, blurByRegex)
	})
}

func (h *history) doRemove(rt *rapid.T) {
	h.settled()
	q := calls.RemoveRequest{Key: h.key(rt), Force: rapid.Bool().Draw(rt, "force"), Tenant: tenant}
	ask(h, calls.Remove, q, func(r *calls.Expected[calls.Void]) { r.Code = h.blurRemove(q.Key, r.Code) })
}

// blurRemove leaves out which of its reasons a master names if an object is being copied.
func (h *history) blurRemove(key string, c errs.Code) errs.Code {
	if h.wasCopied(key) && (c == errs.ReplicaIsNotReady || c == errs.ObjectHasLease) {
		return errs.ObjectHasReplicationTask
	}
	return c
}

func (h *history) doBatchRemove(rt *rapid.T) {
	h.settled()
	q := calls.BatchRemoveRequest{Keys: h.keys(rt, false), Force: rapid.Bool().Draw(rt, "force"), Tenant: tenant}
	ask(h, calls.BatchRemove, q, func(r *[]calls.Expected[calls.Void]) {
		for i := range *r {
			(*r)[i].Code = h.blurRemove(q.Keys[i], (*r)[i].Code)
		}
	})
}

func (h *history) doRemoveByRegex(rt *rapid.T) {
	h.settled()
	ask(h, calls.RemoveByRegex, calls.RemoveByRegexRequest{Key: h.regex(rt), Force: rapid.Bool().Draw(rt, "force"), Tenant: tenant}, nil)
}

func (h *history) doRemoveAll(rt *rapid.T) {
	h.settled()
	ask(h, calls.RemoveAll, calls.RemoveAllRequest{Force: rapid.Bool().Draw(rt, "force"), Tenant: tenant}, nil)
}

func (h *history) doClear(rt *rapid.T) {
	q := calls.BatchReplicaClearRequest{Keys: slices.DeleteFunc(h.keys(rt, false), h.wasCopied), Client: h.client(rt)}
	if rapid.Bool().Draw(rt, "one segment") {
		q.Segment = h.segmentName(rt)
	}
	h.settled()
	for _, k := range q.Keys {
		if o := h.things[k]; o != nil {
			o.changed = true
		}
	}
	ask(h, calls.BatchReplicaClear, q, func(r *calls.Expected[[]string]) {
		if len(r.Value) == 0 {
			r.Value = nil
		}
	})
}

// doWait waits until all leases have ended.
func (h *history) doWait(*rapid.T) {
	if h.lost {
		return
	}
	for _, g := range h.grants {
		time.Sleep(time.Until(g.answered.Add(shortLease + margin)))
	}
}

// Copies, moves and tasks.

var sourceOfCopy = regexp.MustCompile(`"source":"[^"]*",("targets")`)
