package segments

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestViewsDoNotChange(t *testing.T) {
	r := NewRegistry()
	mount := func(n uint64, name string) *Segment {
		s, _, err := r.Prepare(model.UUID{Hi: n}, model.Segment{ID: model.UUID{Hi: n}, Name: name, Base: 1, Size: 10 * n})
		require.NoError(t, err)
		r.Add(s)
		return s
	}
	a := mount(1, "x")
	before := r.View()
	b := mount(2, "x")
	require.Len(t, before.All, 1)
	v := r.View()
	require.Equal(t, uint64(30), v.Capacity)
	require.Equal(t, uint64(20), v.Largest)
	require.Equal(t, 1, v.Names(), "two segments, one node")
	require.Len(t, v.Named("x"), 2)
	require.Equal(t, a, v.Space(a.Space))
	r.Remove(a)
	require.False(t, a.Alive())
	require.Equal(t, []*Segment{b}, r.View().All)
	r.Remove(a)
	require.Nil(t, r.Get(a.ID))
	again := mount(1, "x")
	require.NotEqual(t, a.Space, again.Space, "a space is never used twice")
	r.Remove(a)
	require.Equal(t, again, r.Get(a.ID), "removing the old mount does not touch the new one")
}

func TestAccountsNeverGoBelowZero(t *testing.T) {
	s := &Segment{Segment: model.Segment{Size: 100}}
	s.Take(150)
	require.Zero(t, s.FreeRatio())
	s.Give(200)
	require.Zero(t, s.Used())
	require.Equal(t, 1.0, s.FreeRatio())
}

func TestClients(t *testing.T) {
	c := NewClients()
	at := func(s int) lease.Instant { return lease.Instant(1).Add(time.Duration(s) * time.Second) }
	a, b := model.UUID{Hi: 1}, model.UUID{Hi: 2}
	require.Equal(t, errs.InvalidParams, errs.CodeOf(c.Register(model.UUID{}, at(0))))
	require.False(t, c.Touch(a, at(0)))
	require.NoError(t, c.Register(a, at(0)))
	require.NoError(t, c.Register(b, at(0)))
	require.True(t, c.Touch(b, at(5)))
	require.Empty(t, c.Expire(at(10), 10*time.Second), "silent for exactly the TTL")
	require.True(t, c.Pinged(b, at(5), time.Minute, 0))
	require.Equal(t, map[model.ClientID]lease.Instant{a: 0}, c.Expire(at(11), 10*time.Second))
	require.Equal(t, 1, c.Len())
	require.False(t, c.Touch(a, at(11)))
	require.Equal(t, map[model.ClientID]lease.Instant{b: at(65)}, c.Expire(at(20), 10*time.Second), "until when it may write")
	require.False(t, c.Pinged(b, at(20), time.Minute, 0))
}
