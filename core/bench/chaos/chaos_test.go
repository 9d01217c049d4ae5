package chaos

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/bench/trace"
	"github.com/mooncake-go/mooncake/core/bench/workload"
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

// TestACallThatFailsIsRepeatedOnce: and only a second failure counts as one.
func TestACallThatFailsIsRepeatedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic := traffic{pages: &pages{tally: &tally{}}, repeat: true}
		cause := errs.New(errs.RPCFail, "", "the master is away")
		calls := 0
		answer := func(err error) func() error {
			return func() error { calls++; return err }
		}
		require.NoError(t, traffic.again(t.Context(), wholeRead, cause, answer(nil)))
		require.NoError(t, traffic.again(t.Context(), put, cause, answer(errs.ObjectAlreadyExists.Err())))
		require.Error(t, traffic.again(t.Context(), rangeRead, cause, answer(cause)))
		require.ErrorIs(t, traffic.again(t.Context(), wholeRead, errWrong, answer(nil)), errWrong)
		assert.Equal(t, 3, calls)
		assert.Equal(t, 3, traffic.repeated)
		assert.Equal(t, 1, traffic.failed)
		assert.Equal(t, []string{"a read of a range failed twice: RPC_FAIL: the master is away"}, traffic.details)
	})
}

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
upgrade: 12 processes replaced; 8 calls failed once, 2 of them also a second later; clients of the other release read 14 pages
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
