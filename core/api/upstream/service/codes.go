package service

import (
	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// codeOf returns the error code that clients of a version know, OK for nil: that of the error, or the nearest to it.
func codeOf(v calls.Version, err error) errs.Code {
	if err == nil {
		return errs.OK
	}
	code := errs.CodeOf(err)
	if n, ok := nearest[code]; ok && v < n.since {
		return n.before
	}
	return code
}

// nearest has the codes that not every version that is served knows: since when they are known, and what stands for them
// before.
var nearest = map[errs.Code]struct {
	since  calls.Version
	before errs.Code
}{
	errs.ChecksumMismatch:       {calls.V13, errs.TransferFail},
	errs.IncompleteOpLogCatchUp: {calls.V13, errs.UnavailableInCurrentStatus},
	errs.NotSupported:           {calls.V13, errs.UnavailableInCurrentMode},

	errs.ReplicaNotInLocalMemory: {calls.V12, errs.InvalidReplica},
	errs.ObjectReplicaBusy:       {calls.V12, errs.ObjectHasLease},
	errs.RPCTimeout:              {calls.V12, errs.RPCFail},
	errs.OpLogEntryNotFound:      {calls.V12, errs.EtcdOperationError},
	errs.K8SLeaseOperationError:  {calls.V12, errs.EtcdOperationError},
	errs.K8SLeaseNotFound:        {calls.V12, errs.EtcdKeyNotExist},
	errs.JobNotFound:             {calls.V12, errs.TaskNotFound},
	errs.SerializeUnsupported:    {calls.V12, errs.Internal},
	errs.SerializeFail:           {calls.V12, errs.Internal},
	errs.DeserializeFail:         {calls.V12, errs.Internal},
	errs.PersistentFail:          {calls.V12, errs.Internal},
	errs.DFSNetworkTimeout:       {calls.V12, errs.Internal},
	errs.DFSServiceUnavailable:   {calls.V12, errs.Internal},
	errs.DFSQuotaExceeded:        {calls.V12, errs.NoAvailableHandle},
	errs.DFSPermissionDenied:     {calls.V12, errs.Internal},
	errs.DFSStaleHandle:          {calls.V12, errs.FileInvalidHandle},
	errs.DFSPartialWrite:         {calls.V12, errs.FileWriteFail},
	errs.TenantQuotaExceeded:     {calls.V12, errs.NoAvailableHandle},
	errs.TenantNotRegistered:     {calls.V12, errs.InvalidParams},
	errs.TenantNotEmpty:          {calls.V12, errs.InvalidParams},
}
