package rpc

import (
	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// goKind refuses a number that is no kind of copy.
func goKind(kind int32) (model.CopyKind, error) {
	if kind != int32(model.CopyObject) && kind != int32(model.MoveObject) {
		return 0, errs.New(errs.InvalidParams, "master: copy", "kind %d is neither copy (%d) nor move (%d)", kind, model.CopyObject, model.MoveObject)
	}
	return model.CopyKind(kind), nil
}

// checkPlaces refuses lists of segments that no copy needs.
func checkPlaces(source string, targets []string) error {
	if err := checkCount("targets", len(targets), maxTargets); err != nil {
		return err
	}
	if err := checkText("target", targets...); err != nil {
		return err
	}
	return checkText("source", source)
}

func wireTaskSpec(s model.TaskSpec) *masterv1.TaskSpec {
	return &masterv1.TaskSpec{
		Kind: int32(s.Kind), Tenant: s.Tenant, Key: keyAsBytes(s.Key), Source: text(s.Source), Targets: mapSlice(s.Targets, text),
	}
}

func goTaskSpec(in *masterv1.TaskSpec) (model.TaskSpec, error) {
	kind, err := goKind(in.GetKind())
	if err != nil {
		return model.TaskSpec{}, err
	}
	if err := checkText("tenant", in.GetTenant()); err != nil {
		return model.TaskSpec{}, err
	}
	if err := checkPlaces(in.GetSource(), in.GetTargets()); err != nil {
		return model.TaskSpec{}, err
	}
	if len(in.GetKey()) > model.MaxKeySize {
		return model.TaskSpec{}, model.ValidateKey(string(in.GetKey()))
	}
	return model.TaskSpec{Kind: kind, Tenant: in.GetTenant(), Key: string(in.GetKey()), Source: in.GetSource(), Targets: in.GetTargets()}, nil
}

func wireTask(t model.Task) *masterv1.QueryTaskResponse {
	return &masterv1.QueryTaskResponse{
		Spec: wireTaskSpec(t.Spec), Status: int32(t.Status), CreatedUs: wireTime(t.Created), UpdatedUs: wireTime(t.Updated),
		Assigned: wireUUID(t.Assigned), Message: clip(t.Message),
	}
}

func goTask(id model.TaskID, in *masterv1.QueryTaskResponse) (model.Task, error) {
	spec, err := goTaskSpec(in.GetSpec())
	return model.Task{
		ID: id, Spec: spec, Status: model.TaskStatus(in.GetStatus()), Created: goTime(in.GetCreatedUs()), Updated: goTime(in.GetUpdatedUs()),
		Assigned: goUUID(in.GetAssigned()), Message: in.GetMessage(),
	}, err
}

func wireAssignment(a model.Assignment) *masterv1.Assignment {
	return &masterv1.Assignment{Id: wireUUID(a.ID), Spec: wireTaskSpec(a.Spec), CreatedUs: wireTime(a.Created), MaxRetries: a.MaxRetries}
}

func goAssignments(limit int, in []*masterv1.Assignment) ([]model.Assignment, error) {
	if len(in) > limit {
		return nil, malformed("%d tasks where %d were asked for", len(in), limit)
	}
	out := make([]model.Assignment, len(in))
	for i, a := range in {
		spec, err := goTaskSpec(a.GetSpec())
		if err != nil {
			return nil, err
		}
		out[i] = model.Assignment{ID: goUUID(a.GetId()), Spec: spec, Created: goTime(a.GetCreatedUs()), MaxRetries: a.GetMaxRetries()}
	}
	return out, nil
}

func wirePlan(p model.CopyPlan) *masterv1.CopyStartResponse {
	source := []model.Replica{p.Source}
	w := newReplicaWriter(2, rowsOf(source)+rowsOf(p.Targets))
	w.add(source)
	w.add(p.Targets)
	return &masterv1.CopyStartResponse{Replicas: w.out, ChecksumKind: uint32(p.Checksum.Kind), Checksum: p.Checksum.Value}
}

func goPlan(in *masterv1.CopyStartResponse) (model.CopyPlan, error) {
	sum, err := goChecksum(in.GetChecksumKind(), in.GetChecksum())
	if err != nil {
		return model.CopyPlan{}, err
	}
	var lists [2][]model.Replica
	if err := readReplicas(2, in.GetReplicas(), func(i int, l []model.Replica) { lists[i] = l }); err != nil {
		return model.CopyPlan{}, err
	}
	if len(lists[0]) != 1 {
		return model.CopyPlan{}, malformed("%d sources of a copy", len(lists[0]))
	}
	return model.CopyPlan{Source: lists[0][0], Targets: lists[1], Checksum: sum}, nil
}
