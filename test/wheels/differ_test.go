package wheels

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// tenant is what clients send that are given none.
	tenant = "default"
	// histories is how many histories a version has by default, manyHistories in the long tests.
	histories, manyHistories = 10, 100
	// shortLease is long enough for a history to meet leases, and short enough to wait for their end.
	shortLease = 400 * time.Millisecond
	// grace is for how long our master waits for the writes of clients of a run before it, and refuses
	// to mount segments again.
	grace = time.Minute
	// margin is how far two masters may be apart in time.
	margin = 100 * time.Millisecond
)

// wireOf is the version of the protocol that a wheel speaks.
var wireOf = map[string]calls.Version{
	"0.3.9": calls.V9, "0.3.10.post2": calls.V10, "0.3.11.post1": calls.V11, "0.3.12.post1": calls.V12, "0.3.13.post1": calls.V13,
}

// TestSameAnswers: upstream's master and ours answer the same calls with the same, but for what
// docs/compatibility/upstream-clients.md says. MOONCAKE_INTEROP_HISTORIES is how many histories
// each version has.
func TestSameAnswers(t *testing.T) {
	if !full {
		t.Skip("make interop compares the answers of both masters")
	}
	wheels(t)
	flags := []string{"--eviction_high_watermark_ratio=1", "--eviction_ratio=0", "--client_ttl=3600"}
	masters := map[string][2]*master{}
	for _, version := range versions {
		masters[version] = [2]*master{
			startMasterOf(t, version, true, shortLease, flags...),
			startMasterOf(t, version, false, shortLease, append(flags, "--max_open_ratio_per_client=0")...),
		}
	}
	time.Sleep(grace + margin)
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			d := &differ{t: t, v: wireOf[version]}
			d.theirs = dial(t, "upstream's master", masters[version][0], d.v)
			d.ours = dial(t, "our master", masters[version][1], d.v)
			repeat(t, func(rt *rapid.T) {
				h := newHistory(rt, d)
				defer h.end()
				rt.Repeat(h.steps())
			})
		})
	}
}

// repeat makes as many random runs as the environment wants.
func repeat(t *testing.T, run func(rt *rapid.T)) {
	t.Helper()
	n := strconv.Itoa(histories)
	if full || os.Getenv("MOONCAKE_TEST_LONG") != "" {
		n = strconv.Itoa(manyHistories)
	}
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	require.NoError(t, checks.Value.Set(cmp.Or(os.Getenv("MOONCAKE_INTEROP_HISTORIES"), n)))
	defer func() { require.NoError(t, checks.Value.Set(before)) }()
	rapid.Check(t, run)
}

// differ is two masters that are asked the same.
type differ struct {
	t            *testing.T
	v            calls.Version
	theirs, ours *standin
	serial       uint64 // of histories
}

// history is a random sequence of calls of two clients with segments and one without, on keys of their own.
type history struct {
	*differ
	rt        *rapid.T
	serial    uint64
	clients   []model.ClientID
	mounted   [segments]bool
	remounted [2]bool // a client is known to upstream's master once it has remounted
	things    map[string]*thing
	large     bool            // an object that takes half a segment has been put
	tasks     [][2]model.UUID // theirs and ours
	fetched   []model.UUID    // theirs
	grants    []grant
	sure      time.Time // until then no lease ends, as far as the next call depends on that; zero for no limit
	lost      bool      // a lease may have ended between the masters: what follows says nothing
	pinged    time.Time
}

// thing is what a history remembers of the object of a key, so as not to ask what may be answered differently.
type thing struct {
	copies  int  // that its put made
	copied  bool // there was a copy or move of it
	changed bool // how many it has is not known
}

// grant is a call that may have granted leases.
type grant struct{ sent, answered time.Time }

const segments = 3

func newHistory(rt *rapid.T, d *differ) *history {
	d.serial++
	h := &history{differ: d, rt: rt, serial: d.serial, things: map[string]*thing{}}
	for i := range uint64(3) {
		h.clients = append(h.clients, model.UUID{Hi: h.serial, Lo: 100 + i})
	}
	h.mount(0)
	h.mount(1)
	return h
}

// end leaves both masters as empty as they were.
func (h *history) end() {
	for i := range segments {
		for _, s := range []*standin{h.theirs, h.ours} {
			got, err := call(s, calls.UnmountSegment, &calls.UnmountSegmentRequest{Segment: h.segment(i).ID, Client: h.owner(i)})
			require.NoError(h.rt, err)
			require.Zero(h.rt, got.Code)
		}
	}
	for _, s := range []*standin{h.theirs, h.ours} {
		_, err := call(s, calls.RemoveAll, &calls.RemoveAllRequest{Force: true, Tenant: tenant})
		require.NoError(h.rt, err)
	}
}

// owner is the client of a segment: the first one has two.
func (h *history) owner(i int) model.ClientID { return h.clients[i%2] }

func (h *history) name(i int) string {
	return fmt.Sprintf("10.%d.%d.%d:12345", h.serial>>8, h.serial&255, i+1)
}

// segmentSize is large, since small objects of different sizes lie apart in a segment of our master.
const segmentSize = 16 << 30

func (h *history) segment(i int) calls.Segment {
	return calls.Segment{
		ID: model.UUID{Hi: h.serial, Lo: uint64(i + 1)}, Name: h.name(i), Base: (h.serial*4 + uint64(i) + 1) << 34, Size: segmentSize,
		Endpoint: fmt.Sprintf("10.%d.%d.%d:15000", h.serial>>8, h.serial&255, i+1), Protocol: "tcp",
	}
}

// ask makes a call of both masters. It fails if the answers differ in more than what blur leaves out.
func ask[Q, R any](h *history, f *calls.Call[Q, R], q Q, blur func(r *R)) R {
	h.rt.Helper()
	if h.lost {
		var r R
		return r
	}
	h.ping()
	theirs, ours := h.both(f.Name(), func(s *standin) (any, error) { return call(s, f, &q) })
	a, b := theirs.(R), ours.(R)
	if blur != nil {
		blur(&a)
		blur(&b)
	}
	h.same(f.Name(), q, a, b)
	return a
}

// same compares what the masters answer.
func (h *history) same(name string, q, a, b any) {
	h.rt.Helper()
	h.rt.Logf("%s %+v\n\ttheirs %+v\n\tours   %+v", name, q, a, b)
	late := !h.sure.IsZero() && time.Now().After(h.sure)
	h.sure = time.Time{}
	switch {
	case reflect.DeepEqual(a, b):
	case late:
		h.rt.Log("a lease may have ended between the masters; what follows would say nothing")
		h.lost = true
	default:
		// Also where rapid, which runs the history again, does not find the difference again.
		h.t.Logf("the answers differ: %s %+v\nupstream's master: %+v\nour master:        %+v", name, q, a, b)
		require.FailNow(h.rt, "the answers differ", "%s %+v\nupstream's master: %+v\nour master:        %+v", name, q, a, b)
	}
}

// ping has the clients live, as they do each second: our master makes no further replicas in segments of silent ones.
func (h *history) ping() {
	if time.Since(h.pinged) < time.Second/2 {
		return
	}
	h.pinged = time.Now()
	for _, client := range h.clients[:2] {
		h.both("Ping", func(s *standin) (any, error) { return call(s, calls.Ping, &calls.PingRequest{Client: client}) })
	}
}

// both makes a call of both masters and returns their answers.
func (h *history) both(name string, do func(*standin) (any, error)) (theirs, ours any) {
	theirs, err := do(h.theirs)
	require.NoError(h.rt, err, name)
	ours, err = do(h.ours)
	require.NoError(h.rt, err, name)
	return theirs, ours
}

// settled waits until no lease can have ended at one master only.
func (h *history) settled() {
	for {
		now := time.Now()
		var until time.Time
		h.sure = time.Time{}
		for _, g := range h.grants {
			from, to := g.sent.Add(shortLease-margin), g.answered.Add(shortLease+margin)
			if now.After(from) && now.Before(to) && to.After(until) {
				until = to
			}
			if from.After(now) && (h.sure.IsZero() || from.Before(h.sure)) {
				h.sure = from
			}
		}
		if until.IsZero() {
			return
		}
		time.Sleep(time.Until(until))
	}
}

// granting makes calls that may grant leases.
func (h *history) granting(do func()) {
	h.settled()
	g := grant{sent: time.Now()}
	do()
	g.answered = time.Now()
	h.grants = append(slices.DeleteFunc(h.grants, func(g grant) bool { return time.Since(g.answered) > shortLease+margin }), g)
}

// blurList leaves out of descriptors what each master chooses. Their order is left as it is.
func blurList(list []calls.Descriptor) {
	for i := range list {
		list[i].ID, list[i].Buffer.Address = 0, 0
	}
}

// sortList sorts the replicas of an object, of which nothing but the first one is promised.
func sortList(list []calls.Descriptor) {
	slices.SortFunc(list, func(a, b calls.Descriptor) int { return cmp.Compare(a.Buffer.Endpoint, b.Buffer.Endpoint) })
}

func blurStarted(r *calls.Expected[[]calls.Descriptor]) { blurList(r.Value) }

func blurReplicas(r *calls.Expected[calls.ReplicaList]) {
	blurList(r.Value.Replicas)
	sortList(r.Value.Replicas)
	if r.Code == errs.OK && r.Value.LeaseTTL > 0 {
		r.Value.LeaseTTL = 1
	}
}

func each[T any](blur func(*T)) func(*[]T) {
	return func(list *[]T) {
		for i := range *list {
			blur(&(*list)[i])
		}
	}
}

func blurByRegex(r *calls.Expected[[]calls.KeyReplicas]) {
	slices.SortFunc(r.Value, func(a, b calls.KeyReplicas) int { return cmp.Compare(a.Key, b.Key) })
	for i := range r.Value {
		blurList(r.Value[i].Replicas)
		sortList(r.Value[i].Replicas)
	}
	if len(r.Value) == 0 {
		r.Value = nil
	}
}

// blurPayload leaves out how the JSON is written.
func blurPayload(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	out, _ := json.Marshal(v)
	return string(out)
}
