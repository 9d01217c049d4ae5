package objects

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/model"
)

// When all numbers are given out, the next client can write like any other. No client can end,
// revoke or clear what belongs to another.
func TestClientsBeyondTheNumbers(t *testing.T) {
	r := newRig(t)
	r.clients.most = 2 // the rig's own client, and number 0
	require.NotZero(t, r.client.number)
	a, b := r.Remember(model.UUID{Hi: 50}), r.Remember(model.UUID{Hi: 51})
	require.Zero(t, a.number)
	require.Zero(t, b.number)
	var bin Bin
	begin := func(key string, c Client) uint64 {
		got, out := r.Put(&NewObject{Key: key, Size: 8, Client: c, Copies: r.at(8, 0)}, second, patience, nil, &bin)
		require.Equal(t, Done, out)
		return got[0].ID
	}
	end := func(key string, put uint64, c Client) Outcome {
		_, _, out := r.Finish(key, put, c, model.Checksum{}, second, 0)
		return out
	}
	put, _ := begin("k", a), begin("l", a)
	for _, named := range []uint64{0, put} {
		require.Equal(t, Foreign, end("k", named, b))
		require.Equal(t, Foreign, r.Revoke("k", named, b, &bin))
	}
	require.Equal(t, Superseded, end("k", put+7, a))
	require.Equal(t, Done, end("k", put, a))
	require.Equal(t, Done, end("k", put, a), "again")
	require.Equal(t, Foreign, end("k", 0, b))
	require.Equal(t, Foreign, end("k", 0, a), "the writer is not known")
	require.Equal(t, Written, r.Revoke("k", put, a, &bin))
	for _, c := range []Client{a, b, r.client, {}} {
		require.Equal(t, Foreign, r.Clear("k", c, "", 2*second, &bin))
	}
	require.Equal(t, Done, r.Revoke("l", 0, a, &bin))

	src, _ := r.CopySource("k", "")
	_, out := r.CopyBegin("k", a, model.CopyObject, src.ID, nil, second)
	require.Equal(t, Done, out)
	require.Equal(t, Foreign, r.CopyRevoke("k", b, model.CopyObject, &bin))
	begin("m", a)
	match := func(c model.ClientID, _ lease.Instant) bool { return c == b.id }
	require.Zero(t, r.Abandon(match, &bin)+r.AbandonCopies(match, &bin), "the other one expired")
	require.Equal(t, Done, r.CopyEnd("k", a, model.CopyObject, &bin))
}

// A lookup of a client does not assign a number.
func TestOnlyRememberedClientsHaveNumbers(t *testing.T) {
	r := newRig(t)
	before := len(r.clients.ids)
	for i := range uint64(100) {
		require.Zero(t, r.Known(model.UUID{Hi: 100, Lo: i}).number)
	}
	require.Len(t, r.clients.ids, before)
	require.Equal(t, r.client, r.Known(r.client.id))
}
