package service_test

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// exchange is a request of a capture, and what upstream's master answered.
type exchange struct {
	X                 int
	Run, Dir, Fn, Hex string
	Err               int
	body, answer      []byte
}

// captured returns the exchanges of a release, by the runs in which they were captured.
func captured(t *testing.T, v calls.Version) map[string][]*exchange {
	t.Helper()
	release := map[calls.Version]string{calls.V9: "0.3.9", calls.V10: "0.3.10.post2", calls.V11: "0.3.11.post1", calls.V12: "0.3.12.post1", calls.V13: "0.3.13.post1"}[v]
	file, err := os.Open("../calls/testdata/golden/" + release + ".jsonl.gz")
	require.NoError(t, err)
	defer file.Close() //nolint:errcheck // It was only read.
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	runs, byX := map[string][]*exchange{}, map[int]*exchange{}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		e := &exchange{}
		require.NoError(t, json.Unmarshal(lines.Bytes(), e))
		frame, err := hex.DecodeString(e.Hex)
		require.NoError(t, err)
		switch e.Dir {
		case "c2s":
			e.body = frame[20:]
			byX[e.X] = e
			if f := calls.Lookup(binary.LittleEndian.Uint32(frame[8:])); f != nil && f.Accepts(e.body).Has(v) {
				e.Fn = f.Name()
				runs[e.Run] = append(runs[e.Run], e)
			}
		case "s2c":
			byX[e.X].answer, byX[e.X].Err = frame[16:], e.Err
		}
	}
	require.NoError(t, lines.Err())
	return runs
}

// replay is a pool that the captured requests of one run are sent to. The captures have one request of each kind, so that
// what went before is made up for.
type replay struct {
	*pool
	v      calls.Version
	copier model.ClientID  // the client that owns the sources of copies
	names  map[string]bool // of segments
	tasks  map[model.UUID]model.UUID
}

func (r *replay) mount(name string, owner model.ClientID) {
	if name == "" || r.names[name] {
		return
	}
	i := len(r.names)
	seg := segment(i, 1<<10)
	seg.Name, seg.ID.Hi = name, 0xff
	require.Equal(r.t, errs.OK, ask(r.pool, r.v, calls.MountSegment, calls.MountSegmentRequest{Segment: seg, Client: owner}).Code)
	r.names[name] = true
}

// there makes objects readable, on a segment if one is named. A client that is writing one ends it.
func (r *replay) there(segment string, writer model.ClientID, keys ...string) {
	for _, k := range keys {
		c := &client{r.pool, r.v, cmp.Or(writer, node(3))}
		if code := c.end(k); code == errs.ObjectNotFound {
			c.put(k, 100, calls.ReplicateConfig{PreferredSegment: segment})
		}
	}
}

// prepare makes up for what went before a request. ok says that upstream's master had no error for it.
func (r *replay) prepare(f anyCall, e *exchange, writer model.ClientID, ok bool) {
	copying := func(source string, targets []string, client model.ClientID, key string) {
		r.mount(source, client)
		for _, name := range targets {
			r.mount(name, node(4))
		}
		r.there(source, writer, key)
		ask(r.pool, r.v, calls.FetchTasks, calls.FetchTasksRequest{Client: client, Most: 16})
	}
	switch q := f.request(r.t, e.body).(type) {
	case *calls.PutStartRequest:
		for _, name := range append(q.Config.PreferredSegments, q.Config.PreferredSegment) {
			r.mount(name, r.copier)
		}
	case *calls.BatchPutStartRequest:
		r.mount(q.Config.PreferredSegment, r.copier)
	case *calls.MountSegmentRequest:
		r.names[q.Segment.Name] = true
	case *calls.ReMountSegmentRequest:
		for _, s := range q.Segments {
			r.names[s.Name] = true
		}
	case *calls.CopyStartRequest:
		if ok {
			copying(q.Source, q.Targets, q.Client, q.Key)
		}
	case *calls.MoveStartRequest:
		if ok {
			copying(q.Source, []string{q.Target}, q.Client, q.Key)
		}
	case *calls.CopyEndRequest:
		r.prepareEnd(e, q, ok, copying)
	case *calls.CreateCopyTaskRequest:
		r.there("", writer, q.Key)
		r.mount(q.Targets[0], node(4))
	case *calls.CreateMoveTaskRequest:
		r.mount(q.Source, r.copier)
		r.mount(q.Target, node(4))
		r.there(q.Source, writer, q.Key)
	case *calls.ExistKeyRequest:
		if ok && q.Key != "" && q.Key != "none" {
			r.there("", writer, q.Key)
		}
	case *calls.BatchExistKeyRequest:
		r.there("", writer, slices.DeleteFunc(q.Keys, func(k string) bool { return k == "none" || e.Run == "width" })...)
	case *calls.RemoveRequest:
		switch {
		case e.Fn == "RemoveByRegex":
			r.there("", writer, "b1", "b2", "b3")
		case ok:
			r.there("", writer, q.Key)
		}
	case *calls.BatchRemoveRequest:
		r.there("", writer, q.Keys[0])
	case *calls.BatchReplicaClearRequest:
		r.there("", q.Client, q.Keys...)
	case *calls.PutEndRequest:
		r.begun(q.Client, q.Key)
	case *calls.PutRevokeRequest:
		r.begun(q.Client, q.Key)
	case *calls.BatchPutEndRequest:
		for _, o := range q.Objects {
			r.begun(q.Client, o.Key)
		}
	case *calls.BatchPutRevokeRequest:
		r.begun(q.Client, q.Keys...)
	case *calls.BatchUpsertRevokeRequest:
		r.begun(q.Client, q.Keys...)
	}
}

// begun has puts of a client in progress.
func (r *replay) begun(id model.ClientID, keys ...string) {
	for _, k := range keys {
		(&client{r.pool, r.v, id}).start(k, 10, calls.ReplicateConfig{})
	}
}

// prepareEnd has the copy in progress that a request ends.
func (r *replay) prepareEnd(e *exchange, q *calls.CopyEndRequest, ok bool, copying func(string, []string, model.ClientID, string)) {
	if !ok || e.Fn == "NotifyPromotionSuccess" {
		return
	}
	copying("from:1", []string{"to:1"}, q.Client, q.Key)
	if e.Fn == "MoveRevoke" || e.Fn == "MoveEnd" {
		ask(r.pool, r.v, calls.MoveStart, calls.MoveStartRequest{Client: q.Client, Key: q.Key, Tenant: q.Tenant, Source: "from:1", Target: "to:1"})
	} else {
		ask(r.pool, r.v, calls.CopyStart, calls.CopyStartRequest{Client: q.Client, Key: q.Key, Tenant: q.Tenant, Source: "from:1", Targets: []string{"to:1"}})
	}
}

// other are the requests that this master answers in another way than upstream's did, and why.
var other = map[string]string{
	"p2p Remove k1":                "a lookup protects for as long as a read, which is 10 s, not 5",
	"promo PromotionAllocStart":    "no object lies on the disk of a client",
	"promo NotifyPromotionSuccess": "no object lies on the disk of a client",
	"scan MountLocalDiskSegment":   "upstream's master had offload switched off",
	"scan OffloadObjectHeartbeat":  "upstream's master had offload switched off",
}

// The requests of the captures are answered with the error codes that upstream's master had for them.
func TestCapturedRequests(t *testing.T) {
	compared, differ := 0, map[string]bool{}
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		for run, exchanges := range captured(t, v) {
			r := &replay{newPool(t, nil, 64, 64), v, copierOf(t, exchanges), map[string]bool{}, map[model.UUID]model.UUID{}}
			r.names["base 0"], r.names["base 1"] = true, true // so that further segments have other places
			writer := writerOf(t, exchanges)
			for _, e := range exchanges {
				f := callOf(t, e.Fn)
				for theirs, ours := range r.tasks {
					e.body = bytes.ReplaceAll(e.body, idBytes(theirs), idBytes(ours))
				}
				want := f.outcome(t, v, e.answer)
				r.prepare(f, e, writer, len(want) > 0 && want[0] == errs.OK)
				answer, err := r.AnswerAs(t.Context(), v, f.ID(), e.body)
				require.NoError(t, err, "%s %s", run, e.Fn)
				if made := f.task(t, v, e.answer); !made.IsZero() {
					r.tasks[made] = f.task(t, v, answer)
				}
				got := f.outcome(t, v, answer)
				name := fmt.Sprintf("%s %s", run, e.Fn)
				if q, ok := f.request(t, e.body).(*calls.RemoveRequest); ok {
					name += " " + q.Key
				}
				compared++
				if _, ok := other[name]; ok {
					differ[name] = differ[name] || !slices.Equal(want, got)
					continue
				}
				require.Equal(t, want, got, "%s, exchange %d of version %d", name, e.X, v)
			}
		}
	})
	require.Greater(t, compared, 350)
	for name, why := range other {
		require.True(t, differ[name], "%s: %s", name, why)
	}
}

// writerOf returns the client that puts in a run.
func writerOf(t testing.TB, exchanges []*exchange) model.ClientID {
	for _, e := range exchanges {
		if e.Fn == "PutStart" {
			return callOf(t, e.Fn).request(t, e.body).(*calls.PutStartRequest).Client //nolint:forcetypeassert // It is that of a put.
		}
	}
	return model.ClientID{}
}

// copierOf returns the client that copies in a run.
func copierOf(t testing.TB, exchanges []*exchange) model.ClientID {
	for _, e := range exchanges {
		if e.Fn == "CopyStart" && e.Run != "scan" {
			return callOf(t, e.Fn).request(t, e.body).(*calls.CopyStartRequest).Client //nolint:forcetypeassert // It is that of a copy.
		}
	}
	return node(4)
}

func idBytes(id model.UUID) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, id.Hi), id.Lo)
}
