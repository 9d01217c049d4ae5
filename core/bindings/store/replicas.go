package store

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// PerReplica is how many numbers describe a replica: its status, size and address, the index of its
// endpoint, and 1 if it lies on a storage tier, 0 if in memory.
const PerReplica = 5

// Located has the replicas of objects in columns, since inference engines ask for hundreds of keys at
// once. It can be reused.
type Located struct {
	// Rows are PerReplica numbers for each replica, key by key.
	Rows []uint64
	// Endpoints has each endpoint that a row names once.
	Endpoints []string

	answer model.Answer[model.Object]
	places map[string]uint64
}

// Replicas finds the replicas of objects. It sets counts to the number of replicas of each key, 0 if
// there is none or after an error. A striped replica has the address of its first stripe and the size
// of all stripes.
func (s *Store) Replicas(keys []string, to *Located, counts []uint64) {
	clear(counts)
	to.Rows, to.Endpoints = to.Rows[:0], to.Endpoints[:0]
	clear(to.places)
	var failed [1]Code
	defer func() {
		if failed[0] != 0 { // Rows and counts must stay consistent after an error.
			clear(counts)
			to.Rows = to.Rows[:0]
		}
	}()
	defer s.guard(failed[:])
	o := s.current.Load()
	if o == nil {
		s.note(errNotSetup)
		return
	}
	o.pool.QueryTo(context.Background(), keys, &to.answer)
	for i := range to.answer.Results {
		r := &to.answer.Results[i]
		if r.Err != nil {
			s.note(r.Err)
			continue
		}
		for j := range r.Value.Replicas {
			m := &r.Value.Replicas[j]
			tier := uint64(0)
			if m.OnTier() {
				tier = 1
			}
			to.Rows = append(to.Rows, uint64(m.Status), m.Bytes(), m.Address, to.place(m.Endpoint), tier)
		}
		counts[i] = uint64(len(r.Value.Replicas))
	}
}

// place returns the index of an endpoint.
func (l *Located) place(endpoint string) uint64 {
	if n := len(l.Endpoints); n > 0 && l.Endpoints[n-1] == endpoint {
		return uint64(n - 1)
	}
	place, known := l.places[endpoint]
	if !known {
		if l.places == nil {
			l.places = map[string]uint64{}
		}
		place = uint64(len(l.Endpoints))
		l.places[endpoint] = place
		l.Endpoints = append(l.Endpoints, endpoint)
	}
	return place
}

// ClearReplicas removes replicas on a segment, "" for any, of objects that this store has put. It sets the result of a key to 1
// where that is done, else to 0 or a code.
func (s *Store) ClearReplicas(keys []string, segment string, results []Code) {
	s.with(results, func(ctx context.Context, o *opened) {
		cleared, err := o.pool.ClearReplicas(ctx, keys, segment)
		s.noteAll(err, results)
		done := make(map[string]int, len(cleared))
		for _, k := range cleared {
			done[k]++
		}
		for i, k := range keys {
			if done[k] > 0 {
				done[k]--
				results[i] = 1
			}
		}
	})
}

// pair is a UUID.
type pair [2]uint64

func pairOf(u model.UUID) pair { return pair{u.Hi, u.Lo} }

func createCopy(ctx context.Context, o *opened, a struct {
	Key     string   `json:"key"`
	Targets []string `json:"targets"`
}) (fields, error) {
	id, err := o.pool.CreateTask(ctx, model.TaskSpec{Kind: model.CopyObject, Key: a.Key, Targets: a.Targets})
	return fields{"id": pairOf(id)}, err
}

func createMove(ctx context.Context, o *opened, a struct {
	Key    string `json:"key"`
	Source string `json:"source"`
	Target string `json:"target"`
}) (fields, error) {
	id, err := o.pool.CreateTask(ctx, model.TaskSpec{Kind: model.MoveObject, Key: a.Key, Source: a.Source, Targets: []string{a.Target}})
	return fields{"id": pairOf(id)}, err
}

func queryTask(ctx context.Context, o *opened, a struct {
	ID *pair `json:"id"`
}) (fields, error) {
	if a.ID == nil {
		return nil, errs.New(errs.InvalidParams, "query task", "the id is missing")
	}
	t, err := o.pool.QueryTask(ctx, model.TaskID{Hi: a.ID[0], Lo: a.ID[1]})
	if err != nil {
		return nil, err
	}
	return fields{"task": fields{
		"id": pairOf(t.ID), "type": t.Spec.Kind, "status": t.Status, "message": t.Message, "assigned_client": pairOf(t.Assigned),
		"created_at_ms_epoch": t.Created.UnixMilli(), "last_updated_at_ms_epoch": t.Updated.UnixMilli(),
	}}, nil
}
