package revoked

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
)

func TestASetForgetsAtTheSecondTurn(t *testing.T) {
	var s Set
	_, ok := s.Find(1)
	require.False(t, ok)
	first, other := By{model.NewUUID(), true}, By{model.NewUUID(), false}
	s.Add(1, first)
	s.Add(1, other)
	s.Turn()
	s.Add(2, other)
	got, ok := s.Find(1)
	require.True(t, ok)
	require.Equal(t, first, got, "no other client takes its place")
	s.Turn()
	_, ok = s.Find(1)
	require.False(t, ok)
	got, ok = s.Find(2)
	require.True(t, ok)
	require.Equal(t, other, got)
}

func TestASetIsBounded(t *testing.T) {
	var s Set
	for put := range uint64(most + 1) {
		s.Add(put, By{})
	}
	_, ok := s.Find(most - 1)
	require.True(t, ok)
	_, ok = s.Find(most)
	require.False(t, ok)
}
