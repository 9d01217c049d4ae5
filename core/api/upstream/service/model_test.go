package service_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// thing is what the model knows of an object.
type thing struct {
	writer   model.ClientID
	size     uint64
	complete bool
	leased   bool // a read or a lookup found it
}

// machine has two clients of different versions use the same few keys, and compares each answer with a model of what the master
// promises. The pool has room for everything, so nothing is evicted.
type machine struct {
	clients [2]*client
	things  map[string]*thing
}

var machineKeys = []string{"a", "b", "c", "d"}

func (m *machine) who(rt *rapid.T) *client { return m.clients[rapid.IntRange(0, 1).Draw(rt, "client")] }
func (m *machine) key(rt *rapid.T) string  { return rapid.SampledFrom(machineKeys).Draw(rt, "key") }

func (m *machine) start(rt *rapid.T) {
	c, size := m.who(rt), rapid.Uint64Range(1, 500).Draw(rt, "size")
	keys := rapid.SliceOfNDistinct(rapid.SampledFrom(machineKeys), 1, 4, rapid.ID).Draw(rt, "keys")
	q := calls.BatchPutStartRequest{Client: c.id, Keys: keys, Config: calls.ReplicateConfig{Replicas: 1}, Tenant: "default"}
	for range keys {
		q.Sizes = append(q.Sizes, size)
	}
	for i, got := range ask(c.pool, c.v, calls.BatchPutStart, q) {
		want := errs.OK
		if m.things[keys[i]] != nil {
			want = errs.ObjectAlreadyExists
		} else {
			m.things[keys[i]] = &thing{writer: c.id, size: size}
			require.Equal(rt, size, got.Value[0].Buffer.Size)
			require.Equal(rt, calls.StatusProcessing, got.Value[0].Status)
		}
		require.Equal(rt, want, got.Code)
	}
}

// owned is what the end or revoke of a put is answered with, where it may go on.
func (m *machine) owned(c *client, key string) (*thing, errs.Code) {
	switch o := m.things[key]; {
	case o == nil:
		return nil, errs.ObjectNotFound
	case o.writer != c.id:
		return nil, errs.IllegalClient
	default:
		return o, errs.OK
	}
}

func (m *machine) end(rt *rapid.T) {
	c, key := m.who(rt), m.key(rt)
	o, want := m.owned(c, key)
	require.Equal(rt, want, c.end(key))
	if o != nil {
		o.complete = true
	}
}

func (m *machine) revoke(rt *rapid.T) {
	c, key := m.who(rt), m.key(rt)
	o, want := m.owned(c, key)
	if o != nil && o.complete {
		want = errs.InvalidWrite
	}
	require.Equal(rt, want, c.revoke(key))
	if want == errs.OK {
		delete(m.things, key)
	}
}

func (m *machine) get(rt *rapid.T) {
	c, key := m.who(rt), m.key(rt)
	got := c.get(key)
	switch o := m.things[key]; {
	case o == nil:
		require.Equal(rt, errs.ObjectNotFound, got.Code)
	case !o.complete:
		require.Equal(rt, errs.ReplicaIsNotReady, got.Code)
	default:
		require.Equal(rt, errs.OK, got.Code)
		require.Len(rt, got.Value.Replicas, 1)
		require.Equal(rt, [2]any{o.size, calls.StatusComplete}, [2]any{got.Value.Replicas[0].Buffer.Size, got.Value.Replicas[0].Status})
		o.leased = true
	}
}

func (m *machine) exist(rt *rapid.T) {
	c := m.who(rt)
	for i, got := range ask(c.pool, c.v, calls.BatchExistKey, calls.BatchExistKeyRequest{Keys: machineKeys, Tenant: "default"}) {
		o := m.things[machineKeys[i]]
		there := o != nil && o.complete
		require.Equal(rt, calls.Expected[bool]{Value: there}, got)
		if there {
			o.leased = true
		}
	}
}

func (m *machine) remove(rt *rapid.T) {
	c, key, force := m.who(rt), m.key(rt), rapid.Bool().Draw(rt, "force")
	want := errs.OK
	switch o := m.things[key]; {
	case o == nil:
		want = errs.ObjectNotFound
	case !o.complete:
		want = errs.ReplicaIsNotReady
	case o.leased && !force:
		want = errs.ObjectHasLease
	}
	require.Equal(rt, want, c.remove(key, force))
	if want == errs.OK {
		delete(m.things, key)
	}
}

func (m *machine) removeSome(rt *rapid.T) {
	c, force := m.who(rt), rapid.Bool().Draw(rt, "force")
	got := ask(c.pool, c.v, calls.RemoveByRegex, calls.RemoveByRegexRequest{Key: "[ab]", Force: force, Tenant: "default"})
	want := int64(0)
	for _, key := range []string{"a", "b"} {
		if o := m.things[key]; o != nil && o.complete && (force || !o.leased) {
			delete(m.things, key)
			want++
		}
	}
	require.Equal(rt, calls.Expected[int64]{Value: want}, got)
}

// check looks at all there is without a lease.
func (m *machine) check(rt *rapid.T) {
	var want []string
	for key, o := range m.things {
		if o.complete {
			want = append(want, key)
		}
	}
	slices.Sort(want)
	got, err := m.clients[0].master.ListKeys(m.clients[0].t.Context(), model.Caller{}, "", "", 100)
	require.NoError(rt, err)
	require.Equal(rt, want, got)
	require.NoError(rt, m.clients[0].master.Balance(m.clients[0].t.Context()))
}

func TestTwoVersionsOnTheSameKeys(t *testing.T) {
	pairs := [][2]calls.Version{{calls.V9, calls.V13}, {calls.V10, calls.V12}, {calls.V11, calls.V13}}
	for _, pair := range pairs {
		t.Run(fmt.Sprint(pair), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				p := newPool(rapidT{t, rt}, nil, 8<<10)
				m := &machine{clients: [2]*client{p.client(pair[0], 1), p.client(pair[1], 2)}, things: map[string]*thing{}}
				rt.Repeat(map[string]func(*rapid.T){
					"start": m.start, "end": m.end, "revoke": m.revoke, "get": m.get, "exist": m.exist, "remove": m.remove, "remove some": m.removeSome, "": m.check,
				})
			})
		})
	}
}

// rapidT has the pool of each of rapid's runs stop at its end.
type rapidT struct {
	*testing.T
	rt *rapid.T
}

// Cleanup implements testing.TB.
func (r rapidT) Cleanup(f func()) { r.rt.Cleanup(f) }
