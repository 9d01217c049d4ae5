package storeface

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

type keysArgs struct {
	Keys []string `json:"keys"`
}

// perReplica is how many numbers say what a replica is.
const perReplica = 4

// replicas answers in columns, since engines ask for hundreds of keys at once: objects and
// names of their fields for each replica would take longer than the master. A replica that
// is striped shows its first part, and the size of all.
func (s *Store) replicas(ctx context.Context, o *opened, a keysArgs) (fields, error) {
	found := make([][]uint64, len(a.Keys))
	endpoints := []string{}
	places := map[string]uint64{}
	for i, r := range o.pool.Query(ctx, a.Keys) {
		if r.Err != nil {
			s.note(r.Err)
			continue
		}
		list := make([]uint64, 0, perReplica*len(r.Value.Replicas))
		for j := range r.Value.Replicas {
			m := &r.Value.Replicas[j]
			place, known := places[m.Endpoint]
			if !known {
				place = uint64(len(endpoints))
				places[m.Endpoint] = place
				endpoints = append(endpoints, m.Endpoint)
			}
			list = append(list, uint64(m.Status), m.Bytes(), m.Address, place)
		}
		found[i] = list
	}
	return fields{"replicas": found, "endpoints": endpoints}, nil
}

func clearReplicas(ctx context.Context, o *opened, a struct {
	Keys    []string `json:"keys"`
	Segment string   `json:"segment_name"`
}) (fields, error) {
	keys, err := o.pool.ClearReplicas(ctx, a.Keys, a.Segment)
	return fields{"keys": append([]string{}, keys...)}, err
}

// pair is a UUID.
type pair [2]uint64

func pairOf(u model.UUID) pair { return pair{u.Hi, u.Lo} }

func createCopy(ctx context.Context, o *opened, a struct {
	Key     string   `json:"key"`
	Targets []string `json:"targets"`
}) (fields, error) {
	id, err := o.pool.CreateCopyTask(ctx, a.Key, a.Targets)
	return fields{"id": pairOf(id)}, err
}

func createMove(ctx context.Context, o *opened, a struct {
	Key    string `json:"key"`
	Source string `json:"source"`
	Target string `json:"target"`
}) (fields, error) {
	id, err := o.pool.CreateMoveTask(ctx, a.Key, a.Source, a.Target)
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
