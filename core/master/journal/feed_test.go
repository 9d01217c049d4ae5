package journal

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fed returns a stream with the feed that carries it, and what the node says of its ledger.
func fed() (*Feed, *Stream, []model.LedgerAck) {
	f := NewFeeds(Now).Open(model.ClientID{Hi: 1})
	s, id := NewStream(f, 7, 0), model.SegmentID{Hi: 2}
	f.Add(id, s)
	return f, s, []model.LedgerAck{{Segment: id, Epoch: 7}}
}

// TestAPutWakesThePullOnce gates the wake-ups of a node's pull: one for the put that waits for the ledger,
// none for each record.
func TestAPutWakesThePullOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, acks := fed()
		for p := range ledger.Put(100) {
			s.Commit(p, ledger.Ending{}) // of the put before
			s.Begin(p+1, &ledger.Object{})
			require.Empty(t, f.wake, "a record woke the pull")
			f.Hurry()
			f.Hurry()
			require.Len(t, f.wake, 1)
			batches, _, err := f.Pull(t.Context(), acks, false)
			require.NoError(t, err)
			require.Len(t, batches, 1)
			<-f.wake // The pull did not have to wait.
			acks[0].Seq++
			f.Acknowledge(acks, nil)
		}
		time.Sleep(mostLinger)
	})
}

// TestRecordsLinger: records for which nothing waits are sent leastLinger after the first of them, by a clock that
// may have run for earlier ones.
func TestRecordsLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, acks := fed()
		pulled := make(chan time.Time)
		pull := func() {
			batches, _, err := f.Pull(t.Context(), acks, false)
			if err != nil || len(batches) != 1 {
				t.Errorf("%d batches, %v", len(batches), err)
			}
			pulled <- time.Now()
		}
		go pull()
		synctest.Wait()
		began := time.Now()
		s.Commit(1, ledger.Ending{})
		time.Sleep(leastLinger / 2)
		s.Commit(2, ledger.Ending{})
		require.Equal(t, leastLinger, (<-pulled).Sub(began))

		// The clock still runs for records that a put took along.
		acks[0].Seq++
		f.Acknowledge(acks, nil)
		s.Commit(3, ledger.Ending{})
		f.Hurry()
		go pull()
		<-pulled
		acks[0].Seq++
		f.Acknowledge(acks, nil)
		time.Sleep(leastLinger / 2)
		began = time.Now()
		s.Commit(4, ledger.Ending{})
		go pull()
		require.Equal(t, leastLinger, (<-pulled).Sub(began))
		acks[0].Seq++
		f.Acknowledge(acks, nil)

		// Records wait for a node that does not pull.
		s.Commit(5, ledger.Ending{})
		time.Sleep(time.Minute)
		began = time.Now()
		go pull()
		require.Zero(t, (<-pulled).Sub(began))
		time.Sleep(mostLinger)
	})
}
