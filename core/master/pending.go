package master

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

var errPending = errs.New(errs.NotSupported, "master", "not yet")

func (s *Service) QueryHosts(context.Context, []model.ClientID) (map[model.ClientID][]string, error) {
	return nil, errPending
}
func (s *Service) GetReplicasByRegex(context.Context, model.Caller, string, model.Key, int) ([]model.Key, []model.Result[model.Object], error) {
	return nil, nil, errPending
}
func (s *Service) ClearReplicas(context.Context, model.Caller, []model.Key, model.ClientID, string) ([]model.Key, error) {
	return nil, errPending
}
func (s *Service) Why(context.Context, model.Caller, model.Key) (model.Story, error) {
	return model.Story{}, errPending
}
func (s *Service) CopyStart(context.Context, model.Caller, model.CopyKind, model.Key, string, []string) (model.CopyPlan, error) {
	return model.CopyPlan{}, errPending
}
func (s *Service) CopyEnd(context.Context, model.Caller, model.CopyKind, model.Key) error {
	return errPending
}
func (s *Service) CopyRevoke(context.Context, model.Caller, model.CopyKind, model.Key) error {
	return errPending
}
func (s *Service) CreateTask(context.Context, model.Caller, model.TaskSpec) (model.TaskID, error) {
	return model.TaskID{}, errPending
}
func (s *Service) QueryTask(context.Context, model.TaskID) (model.Task, error) {
	return model.Task{}, errPending
}
func (s *Service) FetchTasks(context.Context, model.Caller, int) ([]model.Assignment, error) {
	return nil, errPending
}
func (s *Service) CompleteTask(context.Context, model.Caller, model.TaskID, model.TaskStatus, string) error {
	return errPending
}

func (s *Service) CreateDrainJob(context.Context, model.DrainSpec) (model.JobID, error) {
	return model.JobID{}, errPending
}
func (s *Service) DrainJob(context.Context, model.JobID) (model.DrainJob, error) {
	return model.DrainJob{}, errPending
}
func (s *Service) CancelDrainJob(context.Context, model.JobID) error { return errPending }
func (s *Service) TenantQuotas(context.Context) ([]model.TenantQuota, error) {
	return nil, errPending
}
func (s *Service) TenantQuota(context.Context, model.Tenant) (model.TenantQuota, error) {
	return model.TenantQuota{}, errPending
}
func (s *Service) SetTenantQuota(context.Context, model.Tenant, uint64) (model.TenantQuota, error) {
	return model.TenantQuota{}, errPending
}
func (s *Service) DeleteTenantQuota(context.Context, model.Tenant) error { return errPending }
