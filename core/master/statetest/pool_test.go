package statetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The model of a pool finds reads of what was replaced, removed, or never written, and permits those that a weak or
// pending write, or an eviction, explains.
func TestThePoolFindsFaults(t *testing.T) {
	put := func(sum uint64) Op { return Op{Kind: "put", Sum: sum} }
	upsert := func(sum uint64) Op { return Op{Kind: "upsert", Sum: sum} }
	read := func(sum uint64) Op { return Op{Kind: "read", Sum: sum} }
	remove := Op{Kind: "remove"}
	weak := func(op Op) Op { op.Weak = true; return op }
	for name, c := range map[string]struct {
		ok    bool
		calls []Op
	}{
		"good":                      {true, []Op{put(1), read(1), upsert(2), read(2), remove, put(3), read(3)}},
		"never written":             {false, []Op{put(1), read(2)}},
		"replaced":                  {false, []Op{put(1), upsert(2), read(1)}},
		"removed":                   {false, []Op{put(1), remove, read(1)}},
		"evicted and put anew":      {true, []Op{put(1), read(1), put(2), read(2)}},
		"put where one was":         {true, []Op{put(1), put(2), read(1)}},
		"back after a put was read": {false, []Op{put(1), put(2), read(2), read(1)}},
		"replaced weakly":           {true, []Op{put(1), weak(upsert(2)), read(2), read(1), read(2)}},
		"removed weakly":            {true, []Op{put(1), weak(remove), read(1)}},
		"removed after a weak one":  {false, []Op{put(1), weak(upsert(2)), remove, read(1)}},
		"gone for good":             {false, []Op{put(1), weak(remove), upsert(2), read(1)}},
	} {
		var h History
		for _, op := range c.calls {
			op.Key = "k"
			h.Add(op, h.Tick(), Result{}, h.Tick())
		}
		require.Equal(t, c.ok, h.Check(Pool(), time.Minute) == nil, name)
	}
	var h History
	h.Add(Op{Kind: "upsert", Key: "k", Sum: 1, Weak: true}, h.Tick(), Result{}, Pending)
	for _, op := range []Op{upsert(2), read(2), read(1)} {
		op.Key = "k"
		h.Add(op, h.Tick(), Result{}, h.Tick())
	}
	require.NoError(t, h.Check(Pool(), time.Minute), "a pending write takes effect late")
}
