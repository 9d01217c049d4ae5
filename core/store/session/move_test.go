package session

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// mover answers pings with err, and can be another master.
type mover struct {
	store.Master
	move  func()
	err   atomic.Pointer[error]
	pings atomic.Int32
}

func (m *mover) OnMove(f func()) { m.move = f }

func (m *mover) Ping(context.Context, model.ClientID, model.PingReport) (model.PingReply, error) {
	m.pings.Add(1)
	if err := m.err.Load(); err != nil {
		return model.PingReply{}, *err
	}
	return model.PingReply{Status: model.ClientOK}, nil
}

func (m *mover) Ready(context.Context) (string, error) { return "", *m.err.Load() }

// leaderless is the error of calls while no master leads.
type leaderless struct{ error }

func (leaderless) Is(target error) bool { return target == store.ErrNoLeader }
func (e leaderless) Unwrap() error      { return e.error }

func (m *mover) fail(err error) { m.err.Store(&err) }

// TestAMasterThatMoved: it is pinged at once, and soon again while it does not serve yet; while none leads, calls fail
// at once with that error.
func TestAMasterThatMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mover{}
		s, err := New(Config{PingInterval: time.Hour, MaxPingInterval: time.Hour, MasterDownTimeout: time.Second},
			Deps{ID: model.NewUUID(), Master: m, Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		defer s.Close()
		require.NoError(t, s.Reach(t.Context()))
		time.Sleep(time.Second)
		before := m.pings.Load()
		require.Zero(t, s.MasterSince())

		m.move()
		synctest.Wait()
		require.Equal(t, before+1, m.pings.Load(), "at once")
		require.Equal(t, time.Now(), s.MasterSince())

		m.fail(errs.New(errs.RPCFail, "", "refused"))
		m.move()
		time.Sleep(5*time.Second + minProbeGap/2)
		require.InDelta(t, before+1+int32(5*time.Second/minProbeGap), m.pings.Load(), 4)
		require.True(t, s.Health().Down)
		m.fail(leaderless{errs.New(errs.UnavailableInCurrentStatus, "", "no master leads")})
		time.Sleep(minProbeGap)
		err = Do(t.Context(), s, "Call", func(context.Context) error { t.Error("the call is made"); return nil })
		require.ErrorIs(t, err, store.ErrNoLeader)
		require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(err))

		m.err.Store(nil)
		time.Sleep(minProbeGap)
		require.False(t, s.Health().Down)
		served := m.pings.Load()
		time.Sleep(10 * time.Minute)
		require.Equal(t, served, m.pings.Load(), "it is calm again")
	})
}

// late answers the first ping as that of an unknown client, after something that happens meanwhile.
type late struct {
	store.Master
	meanwhile func()
	pings     atomic.Int32
}

func (l *late) Ping(context.Context, model.ClientID, model.PingReport) (model.PingReply, error) {
	if l.pings.Add(1) == 1 {
		l.meanwhile()
		return model.PingReply{Status: model.ClientNeedRemount}, nil
	}
	return model.PingReply{Status: model.ClientOK}, nil
}

func (l *late) RemountSegments(context.Context, model.ClientID, []model.Segment) error { return nil }

// pinged is a member that keeps what pings say.
type pinged struct{ forgotten, known atomic.Int32 }

func (p *pinged) Joined() bool { return true }

func (p *pinged) Pinged(reply model.PingReply, _ error) {
	if reply.Status == model.ClientNeedRemount {
		p.forgotten.Add(1)
	} else {
		p.known.Add(1)
	}
}

// TestAnAnswerFromBeforeAMemberJoined: a member that has joined while a ping was in flight is not told that the master does
// not know it. The next ping follows at once.
func TestAnAnswerFromBeforeAMemberJoined(t *testing.T) {
	for name, joins := range map[string]bool{"joined meanwhile": true, "did not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &late{meanwhile: func() {}}
				s, err := New(Config{PingInterval: time.Hour, MaxPingInterval: time.Hour, MasterDownTimeout: time.Second},
					Deps{ID: model.NewUUID(), Master: l, Log: slog.New(slog.DiscardHandler)})
				require.NoError(t, err)
				defer s.Close()
				if joins {
					l.meanwhile = s.TriedToJoin
				}
				var m pinged
				s.Attach(&m)
				synctest.Wait()
				require.Equal(t, joins, m.forgotten.Load() == 0)
				require.Equal(t, joins, m.known.Load() > 0, "pinged again at once")
			})
		})
	}
}
