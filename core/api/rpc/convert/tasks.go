package convert

import (
	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// FromKind refuses a number that is no kind of copy.
func FromKind(kind int32) (model.CopyKind, error) {
	if kind != int32(model.CopyObject) && kind != int32(model.MoveObject) {
		return 0, errs.New(errs.InvalidParams, "master: copy", "kind %d is neither copy (%d) nor move (%d)", kind, model.CopyObject, model.MoveObject)
	}
	return model.CopyKind(kind), nil
}

// CheckPlaces refuses lists of segments that no copy needs.
func CheckPlaces(source string, targets []string) error {
	if err := CheckCount("targets", len(targets), rpc.MaxTargets); err != nil {
		return err
	}
	if err := CheckText("target", targets...); err != nil {
		return err
	}
	return CheckText("source", source)
}

// ToTaskSpec returns the message of a task.
func ToTaskSpec(s model.TaskSpec) *masterv1.TaskSpec {
	return &masterv1.TaskSpec{
		Kind: int32(s.Kind), Tenant: s.Tenant, Key: ToKey(s.Key), Source: Text(s.Source), Targets: Each(s.Targets, Text),
	}
}

// FromTaskSpec returns the task in a message, and refuses one that no client of ours creates.
func FromTaskSpec(in *masterv1.TaskSpec) (model.TaskSpec, error) {
	kind, err := FromKind(in.GetKind())
	if err != nil {
		return model.TaskSpec{}, err
	}
	if err := CheckText("tenant", in.GetTenant()); err != nil {
		return model.TaskSpec{}, err
	}
	if err := CheckPlaces(in.GetSource(), in.GetTargets()); err != nil {
		return model.TaskSpec{}, err
	}
	if len(in.GetKey()) > model.MaxKeySize {
		return model.TaskSpec{}, model.ValidateKey(string(in.GetKey()))
	}
	return model.TaskSpec{Kind: kind, Tenant: in.GetTenant(), Key: string(in.GetKey()), Source: in.GetSource(), Targets: in.GetTargets()}, nil
}

// ToTask returns the answer to QueryTask.
func ToTask(t model.Task) *masterv1.QueryTaskResponse {
	return &masterv1.QueryTaskResponse{
		Spec: ToTaskSpec(t.Spec), Status: int32(t.Status), CreatedUs: toTime(t.Created), UpdatedUs: toTime(t.Updated),
		Assigned: ToUUID(t.Assigned), Message: Clip(t.Message),
	}
}

// FromTask returns the task that was asked for.
func FromTask(id model.TaskID, in *masterv1.QueryTaskResponse) (model.Task, error) {
	spec, err := FromTaskSpec(in.GetSpec())
	return model.Task{
		ID: id, Spec: spec, Status: model.TaskStatus(in.GetStatus()), Created: fromTime(in.GetCreatedUs()), Updated: fromTime(in.GetUpdatedUs()),
		Assigned: FromUUID(in.GetAssigned()), Message: in.GetMessage(),
	}, err
}

// ToAssignment returns the message of a task for a client.
func ToAssignment(a model.Assignment) *masterv1.Assignment {
	return &masterv1.Assignment{Id: ToUUID(a.ID), Spec: ToTaskSpec(a.Spec), CreatedUs: toTime(a.Created), MaxRetries: a.MaxRetries}
}

// FromAssignments returns at most limit tasks.
func FromAssignments(limit int, in []*masterv1.Assignment) ([]model.Assignment, error) {
	if len(in) > limit {
		return nil, Malformed("%d tasks where %d were asked for", len(in), limit)
	}
	out := make([]model.Assignment, len(in))
	for i, a := range in {
		spec, err := FromTaskSpec(a.GetSpec())
		if err != nil {
			return nil, err
		}
		out[i] = model.Assignment{ID: FromUUID(a.GetId()), Spec: spec, Created: fromTime(a.GetCreatedUs()), MaxRetries: a.GetMaxRetries()}
	}
	return out, nil
}

// ToPlan returns the answer to CopyStart.
func ToPlan(p model.CopyPlan) *masterv1.CopyStartResponse {
	source := []model.Replica{p.Source}
	w := newReplicaWriter(2, RowsOf(source)+RowsOf(p.Targets))
	w.add(source)
	w.add(p.Targets)
	return &masterv1.CopyStartResponse{Replicas: w.out, ChecksumKind: uint32(p.Checksum.Kind), Checksum: p.Checksum.Value}
}

// FromPlan returns the plan of a copy, which has one source.
func FromPlan(in *masterv1.CopyStartResponse) (model.CopyPlan, error) {
	sum, err := goChecksum(in.GetChecksumKind(), in.GetChecksum())
	if err != nil {
		return model.CopyPlan{}, err
	}
	var lists [2][]model.Replica
	if err := readReplicas(2, in.GetReplicas(), func(i int, l []model.Replica) { lists[i] = l }); err != nil {
		return model.CopyPlan{}, err
	}
	if len(lists[0]) != 1 {
		return model.CopyPlan{}, Malformed("%d sources of a copy", len(lists[0]))
	}
	return model.CopyPlan{Source: lists[0][0], Targets: lists[1], Checksum: sum}, nil
}
