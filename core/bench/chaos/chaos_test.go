package chaos

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/bench/trace"
	"github.com/mooncake-go/mooncake/core/bench/workload"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOptionsRefusals(t *testing.T) {
	require.NoError(t, Default().Validate())
	for want, change := range map[string]func(*Options){
		`no fault "fire"`:   func(o *Options) { o.Faults = []string{"fire"} },
		"0 rounds":          func(o *Options) { o.Rounds = 0 },
		"0 keys":            func(o *Options) { o.Keys = 0 },
		"page of 12":        func(o *Options) { o.PageSize = 12 },
		"half of the pool":  func(o *Options) { o.SegmentSize = 1 << 20 },
		`it is "both"`:      func(o *Options) { o.Security = "both" },
		"pause of 0s":       func(o *Options) { o.Pause = 0 },
		"times of -1s, 1m0": func(o *Options) { o.ClientTTL = -time.Second },
	} {
		o := Default()
		change(&o)
		err := o.Validate()
		assert.ErrorContains(t, err, want)
		assert.ErrorIs(t, err, errs.InvalidParams.Err())
	}
}

func TestFaultsAreSelectedInOrder(t *testing.T) {
	o := Default()
	assert.Len(t, o.selected(), len(Names())+1, "there are two upgrades")
	o.Faults = []string{"store-kill", "master-term"}
	var titles []string
	for _, f := range o.selected() {
		titles = append(titles, f.title)
	}
	assert.Equal(t, []string{"master SIGTERM", "store kill -9"}, titles)
	o.Faults = []string{"upgrade"}
	assert.Len(t, o.selected(), 2, "with one master and with three")
	assert.NotContains(t, ElectionNames(), "upgrade")
}

func TestUpgradesNeedAProgram(t *testing.T) {
	o, notes := Default(), []string{}
	o.Faults, o.Note = []string{"upgrade"}, func(s string) { notes = append(notes, s) }
	rows, err := Run(t.Context(), o)
	require.NoError(t, err)
	assert.Empty(t, rows)
	require.Len(t, notes, 2)
	assert.Contains(t, notes[0], "see --from")
}

// TestCallsThatFailAreRepeatedOnce: and only a second failure counts as one.
func TestCallsThatFailAreRepeatedOnce(t *testing.T) {
	cause := errs.New(errs.RPCFail, "", "the master is away")
	pool := &refusing{puts: map[string]int{}}
	traffic := traffic{pages: &pages{client: pool, model: "m", size: 8, tally: &tally{}}}
	traffic.failed(put, 1, cause)
	require.Empty(t, traffic.again, "calls are repeated in upgrades only")
	traffic.repeat = true
	for range 2 {
		traffic.failed(put, 1, cause)
		traffic.failed(put, 2, cause)
	}
	traffic.failed(wholeRead, 3, cause)
	traffic.failed(rangeRead, 4, errWrong)
	pool.refused = traffic.key(2)
	for range 2 {
		traffic.repeatFailed(t.Context())
	}
	assert.Equal(t, map[string]int{traffic.key(1): 1, traffic.key(2): 1}, pool.puts)
	assert.Equal(t, 3, traffic.repeats)
	assert.Equal(t, 2, traffic.failedTwice)
	slices.Sort(traffic.details)
	assert.Equal(t, []string{"a put failed twice: RPC_FAIL: refused", "a whole read failed twice: OBJECT_NOT_FOUND: nothing is here"}, traffic.details)
}

// refusing has no objects and refuses the put of a key.
type refusing struct {
	store.Pool
	refused string
	puts    map[string]int
}

func (p *refusing) PutItems(_ context.Context, items []store.Item, _ model.ReplicateConfig) []store.PutResult {
	out := make([]store.PutResult, len(items))
	for i, it := range items {
		if p.puts[it.Key]++; it.Key == p.refused {
			out[i].Err = errs.New(errs.RPCFail, "", "refused")
		}
	}
	return out
}

func (p *refusing) GetFragments(_ context.Context, keys []model.Key, _ [][]byte, _ []uint64) []model.Result[int] {
	out := make([]model.Result[int], len(keys))
	for i := range out {
		out[i].Err = errs.New(errs.ObjectNotFound, "", "nothing is here")
	}
	return out
}

func (p *refusing) BatchRemove(context.Context, []model.Key, bool) []error { return []error{nil} }

// TestTheOtherClientLeavesRoom: what it puts does not make the pool evict the keys.
func TestTheOtherClientLeavesRoom(t *testing.T) {
	o := Default()
	requests, puts := trace.NewReader(strings.NewReader(otherTrace(o))), 0
	for n := range otherRequests {
		r, err := requests.Next()
		require.NoError(t, err, n)
		for i, b := range r.Blocks {
			if b >= otherFirst {
				require.Equal(t, otherReads, i, "after what it reads")
				puts++
			} else {
				require.Less(t, b, uint64(o.Keys))
			}
		}
	}
	assert.Equal(t, o.SegmentSize/2/uint64(o.PageSize), uint64(puts))
}

// TestAStrangerNoticesAnOpenDoor: over TLS without a certificate, with HTTP/2 and HTTP/1, and in plaintext; and no door that refuses.
func TestAStrangerNoticesAnOpenDoor(t *testing.T) {
	for name, c := range map[string]struct {
		auth            tls.ClientAuthType
		status          int
		admin, plain    bool
		tries, servings int
	}{
		"calls without a certificate": {auth: tls.NoClientCert, status: 200, tries: 1, servings: 1},
		"admin without a certificate": {auth: tls.NoClientCert, status: 200, admin: true, tries: 1, servings: 1},
		"calls with certificates":     {auth: tls.RequireAnyClientCert, status: 200, tries: 1},
		"admin with certificates":     {auth: tls.RequireAnyClientCert, status: 200, admin: true, tries: 1},
		"plaintext":                   {status: 200, admin: true, plain: true, tries: 1, servings: 1},
		"plaintext that is refused":   {status: 400, admin: true, plain: true, tries: 1},
	} {
		t.Run(name, func(t *testing.T) {
			far := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status) }))
			far.Config.ErrorLog = log.New(io.Discard, "", 0)
			far.EnableHTTP2, far.TLS = true, &tls.Config{ClientAuth: c.auth}
			if c.plain {
				far.Start()
			} else {
				far.StartTLS()
			}
			defer far.Close()
			var s stranger
			s.try(t.Context(), far.Listener.Addr().String(), c.admin, !c.plain)
			assert.Equal(t, c.tries, s.tries)
			assert.Equal(t, c.servings, s.served)
		})
	}
}

// TestTallyFindsTheLongestSilence: of the kind of call that was silent the longest, up to the end, and
// without what was before the mark.
func TestTallyFindsTheLongestSilence(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	var y tally
	y.call(put, at(0), at(900), true)
	y.mark(at(1000))
	assert.False(t, y.since(at(1000)))
	for k := range kinds {
		y.call(k, at(1000), at(1100), true)
	}
	assert.True(t, y.since(at(1000)))
	y.call(rangeRead, at(1100), at(1200), false)
	y.call(rangeRead, at(1250), at(1400), true)
	y.call(wholeRead, at(1400), at(1350), true)
	y.call(put, at(1100), at(1300), false)
	y.call(put, at(1400), at(1450), true)
	var r Row
	y.end(at(1500), &r)
	assert.EqualValues(t, 200, r.LongestCallMS)
	assert.EqualValues(t, 350, r.OutageMS)
	assert.Equal(t, put, r.silent)

	y.call(put, at(1400), at(1500), true)
	y.end(at(9000), &r)
	assert.EqualValues(t, 7650, r.OutageMS, "a kind that never succeeds again is silent to the end")
	assert.Equal(t, wholeRead, r.silent)
}

func TestRowsOfSeveralRounds(t *testing.T) {
	var r Row
	r.add(Row{Fault: "master kill -9", Keys: 1000, Readable: 1000, LongestCallMS: 300, OutageMS: 10, Rounds: 1})
	r.add(Row{Fault: "master kill -9", Keys: 1000, Readable: 998, Wrong: 2, LongestCallMS: 20, OutageMS: 1250, Rounds: 1, Details: []string{"page 0x1"}})
	rows := Rows{r, {Fault: "link cut", Keys: 1000, Readable: 1000, Wrong: 1, Rounds: 1}}
	u := Row{Fault: "upgrade", Keys: 10, Readable: 10, Rounds: 1, Upgrade: &Upgrade{Replaced: 6, Repeated: 4, Failed: 1, OtherVerified: 7}}
	u.add(u)
	rows = append(rows, u)
	assert.Equal(t, 2, rows.FailedTwice())
	assert.Equal(t, 3, rows.Wrong())
	var out bytes.Buffer
	rows.Text(&out)
	assert.Equal(t, `FAULT           READABLE      WRONG  LONGEST CALL  NO SUCCESS FOR  ROUNDS
master kill -9  998 of 1000   2      0.30 s        1.25 s          2
link cut        1000 of 1000  1      0.00 s        0.00 s          1
upgrade         10 of 10      0      0.00 s        0.00 s          2
master kill -9: page 0x1
upgrade: 12 processes replaced; 8 calls failed once, 2 of them also when the process was back; clients of the other release read 14 pages
`, out.String())
}

func TestBlocksOfTheClientsAreDistinct(t *testing.T) {
	load := workload.Default()
	load.Requests = victimRequests
	blocks, err := distinct(load, victimBlocks)
	require.NoError(t, err)
	seen := map[uint64]bool{}
	for _, b := range blocks {
		seen[b] = true
	}
	assert.Len(t, seen, victimBlocks)
	load.Requests = 1
	_, err = distinct(load, victimBlocks)
	assert.ErrorContains(t, err, "too short")
}
