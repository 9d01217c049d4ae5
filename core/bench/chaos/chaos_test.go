package chaos

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

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
	assert.Len(t, o.selected(), len(Names()))
	o.Faults = []string{"store-kill", "master-term"}
	var titles []string
	for _, f := range o.selected() {
		titles = append(titles, f.title)
	}
	assert.Equal(t, []string{"master SIGTERM", "store kill -9"}, titles)
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
	assert.Equal(t, 3, rows.Wrong())
	var out bytes.Buffer
	rows.Text(&out)
	assert.Equal(t, `FAULT           READABLE      WRONG  LONGEST CALL  NO SUCCESS FOR  ROUNDS
master kill -9  998 of 1000   2      0.30 s        1.25 s          2
link cut        1000 of 1000  1      0.00 s        0.00 s          1
master kill -9: page 0x1
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
