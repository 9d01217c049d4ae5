package master_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/grant"
)

// books are those of a node's segments. A nil one makes no keys.
type books struct {
	born  time.Time
	of    map[model.SegmentID]*grant.Book
	last  *grant.Clock // of the keys that were made last
	fresh map[model.SegmentID]*grant.Entry
}

func newBooks() *books {
	return &books{born: time.Now(), of: map[model.SegmentID]*grant.Book{}, fresh: map[model.SegmentID]*grant.Entry{}}
}

func (b *books) now() time.Duration { return time.Since(b.born) }

// give makes a key for the master that is about to be attached to.
func (b *books) give(id model.SegmentID, lead bool) *model.GrantKey {
	if b == nil {
		return nil
	}
	if b.of[id] == nil {
		b.of[id] = grant.NewBook(b.now)
	}
	if len(b.fresh) == 0 {
		b.last = new(grant.Clock)
	}
	e := b.of[id].Add(grant.Role{Clock: b.last, Lead: lead})
	b.fresh[id] = e
	return &model.GrantKey{Number: e.Number, Key: e.Key}
}

// hear takes the answer of the master.
func (b *books) hear(got model.Attached, lead bool) {
	if b == nil {
		return
	}
	b.last.Hear(b.now(), b.now(), got.Clock.Shown)
	for id, e := range b.fresh {
		if lead {
			b.of[id].Close(b.now()+got.Lease, b.now()+got.Write, func(o *grant.Entry) bool { return o.Lead && o.Number < e.Number })
		}
	}
	clear(b.fresh)
}

// verdict is what the node says to an operation on all of a part.
func (b *books) verdict(p model.Part, seg model.Segment, by transport.Subject, kind transport.OpKind) transport.Verdict {
	return b.of[p.SegmentID].Check(p.Permit.Grant(), by, kind, p.Address-seg.Base, p.Size)
}

// named returns the context of calls of a client with an identity.
func named(ctx context.Context, name string) (context.Context, transport.Subject) {
	id := security.Identity{Trust: "pool", Role: security.RoleClient, Name: name}
	return access.With(ctx, access.NewPeer(id, config.DoorRPC, &net.TCPAddr{})), grant.SubjectOf(id.URI())
}

func (r *rig) located(ctx context.Context, t *testing.T, key string) model.Part {
	t.Helper()
	got, err := r.GetReplicas(ctx, model.Caller{Client: r.client}, []model.Key{key}, nil)
	require.NoError(t, err)
	require.NoError(t, got[0].Err)
	return got[0].Value.Replicas[0].Part
}

// TestGrants: a caller with an identity gets grants for what it may read and write, and no other one does. A master that takes over
// makes some at once, and those of the master before count as long as its leases.
func TestGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, follower := startStandby(t), startStandby(t)
		leader.lead()
		k := newKeeper(t, 1, 64)
		k.books = newBooks()
		k.join(leader)
		follower.Learn()
		k.tell(follower)
		ctx, alice := named(t.Context(), "alice")
		_, mallory := named(t.Context(), "mallory")
		seg := k.segs[0]

		put, err := leader.PutStart(ctx, model.Caller{Client: leader.client}, []model.PutItem{{Key: "new", Size: page}}, model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		require.NoError(t, put[0].Err)
		written := put[0].Value[0].Part
		require.Equal(t, transport.GrantGood, k.books.verdict(written, seg, alice, transport.Write))
		require.Equal(t, transport.GrantWrong, k.books.verdict(written, seg, alice, transport.Read))
		require.Equal(t, transport.GrantWrong, k.books.verdict(written, seg, mallory, transport.Write))

		leader.put("a")
		flushed()
		k.tell(follower)
		require.Nil(t, leader.located(t.Context(), t, "a").Permit, "a caller without an identity gets none")
		read := leader.located(ctx, t, "a")
		require.Equal(t, transport.GrantGood, k.books.verdict(read, seg, alice, transport.Read))
		require.Equal(t, transport.GrantWrong, k.books.verdict(read, seg, mallory, transport.Read))
		longer := read
		longer.Size++
		require.Equal(t, transport.GrantWrong, k.books.verdict(longer, seg, alice, transport.Read))
		k.leave()

		follower.takeOver(k)
		require.Equal(t, transport.GrantGood, k.books.verdict(read, seg, alice, transport.Read), "what the master before promised is kept")
		again := follower.located(ctx, t, "a")
		require.Equal(t, transport.GrantGood, k.books.verdict(again, seg, alice, transport.Read))
		late := leader.located(ctx, t, "a") // It does not know that it was deposed.
		time.Sleep(time.Minute)
		for _, p := range []model.Part{read, again, late} {
			require.Equal(t, transport.GrantOver, k.books.verdict(p, seg, alice, transport.Read), "the lease is over")
		}
		require.Equal(t, transport.GrantOver, k.books.verdict(written, seg, alice, transport.Write), "the put is over")
	})
}
