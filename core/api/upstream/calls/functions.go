package calls

var (
	expectedVoid        = expected(walkVoid)
	expectedBool        = expected(walkBool)
	expectedInt64       = expected(walkInt64)
	expectedString      = expected(walkString)
	expectedUUID        = expected(walkUUID)
	expectedStatus      = expected(walkStatus)
	expectedDescriptors = expected(list((*Descriptor).walk))
	expectedReplicas    = expected((*ReplicaList).walk)
	expectedOffload     = expected(walkOffloadTasks)
)

// The calls of clients about themselves and their segments.
var (
	ServiceReady           = define[Void]("ServiceReady", V9, nil, expectedString)
	GetFsdir               = define[Void]("GetFsdir", V9, nil, expectedString)
	GetStorageConfig       = define[Void]("GetStorageConfig", V9, nil, expected((*StorageConfig).walk))
	Ping                   = define("Ping", V9, (*PingRequest).walk, expected((*PingResponse).walk))
	MountSegment           = define("MountSegment", V9, (*MountSegmentRequest).walk, expectedVoid)
	ReMountSegment         = define("ReMountSegment", V9, (*ReMountSegmentRequest).walk, expectedVoid)
	UnmountSegment         = define("UnmountSegment", V9, (*UnmountSegmentRequest).walk, expectedVoid)
	GracefulUnmountSegment = define("GracefulUnmountSegment", V11, (*GracefulUnmountSegmentRequest).walk, expectedVoid)
	QuerySegmentStatus     = define("QuerySegmentStatus", V11, (*QuerySegmentStatusRequest).walk, expectedStatus)
	QuerySegmentStatusByID = define("QuerySegmentStatusById", V11, (*QuerySegmentStatusByIDRequest).walk, expectedStatus)
	BatchQueryIP           = define("BatchQueryIp", V9, (*BatchQueryIPRequest).walk, expected(walkClientIPs))
	MountNoFSegment        = define("MountNoFSegment", V11, (*MountNoFSegmentRequest).walk, expectedVoid)
	ReMountNoFSegment      = define("ReMountNoFSegment", V11, (*ReMountNoFSegmentRequest).walk, expectedVoid)
	UnmountNoFSegment      = define("UnmountNoFSegment", V11, (*UnmountNoFSegmentRequest).walk, expectedVoid)
	GetAllNoFSegments      = define[Void]("GetAllNoFSegments", V11, nil, expected(list((*NoFSegment).walk)))
	GetNoFSegmentsByName   = define("GetNoFSegmentsByName", V11, (*GetNoFSegmentsByNameRequest).walk, expected(list((*NoFOwner).walk)))
)

// The calls on objects.
var (
	ExistKey              = define("ExistKey", V9, (*ExistKeyRequest).walk, expectedBool)
	BatchExistKey         = define("BatchExistKey", V9, (*BatchExistKeyRequest).walk, list(expectedBool))
	GetReplicaList        = define("GetReplicaList", V9, (*GetReplicaListRequest).walk, expectedReplicas)
	BatchGetReplicaList   = define("BatchGetReplicaList", V9, (*BatchGetReplicaListRequest).walk, list(expectedReplicas))
	GetReplicaListByRegex = define("GetReplicaListByRegex", V9, (*GetReplicaListByRegexRequest).walk, expected(walkKeyReplicas))
	PutStart              = define("PutStart", V9, (*PutStartRequest).walk, expectedDescriptors)
	PutEnd                = define("PutEnd", V9, (*PutEndRequest).walk, expectedVoid)
	PutRevoke             = define("PutRevoke", V9, (*PutRevokeRequest).walk, expectedVoid)
	BatchPutStart         = define("BatchPutStart", V9, (*BatchPutStartRequest).walk, list(expectedDescriptors))
	BatchPutEnd           = define("BatchPutEnd", V9, (*BatchPutEndRequest).walk, list(expectedVoid))
	BatchPutRevoke        = define("BatchPutRevoke", V9, (*BatchPutRevokeRequest).walk, list(expectedVoid))
	UpsertStart           = define("UpsertStart", V10, (*UpsertStartRequest).walk, expectedDescriptors)
	UpsertEnd             = define("UpsertEnd", V10, (*UpsertEndRequest).walk, expectedVoid)
	UpsertRevoke          = define("UpsertRevoke", V10, (*UpsertRevokeRequest).walk, expectedVoid)
	BatchUpsertStart      = define("BatchUpsertStart", V10, (*BatchUpsertStartRequest).walk, list(expectedDescriptors))
	BatchUpsertEnd        = define("BatchUpsertEnd", V10, (*BatchUpsertEndRequest).walk, list(expectedVoid))
	BatchUpsertRevoke     = define("BatchUpsertRevoke", V10, (*BatchUpsertRevokeRequest).walk, list(expectedVoid))
	Remove                = define("Remove", V9, (*RemoveRequest).walk, expectedVoid)
	RemoveByRegex         = define("RemoveByRegex", V9, (*RemoveByRegexRequest).walk, expectedInt64)
	RemoveAll             = define("RemoveAll", V9, (*RemoveAllRequest).walk, walkInt64)
	BatchRemove           = define("BatchRemove", V10, (*BatchRemoveRequest).walk, list(expectedVoid))
	BatchReplicaClear     = define("BatchReplicaClear", V9, (*BatchReplicaClearRequest).walk, expected(walkStrings))
	EvictDiskReplica      = define("EvictDiskReplica", V10, (*EvictDiskReplicaRequest).walk, expectedVoid)
	BatchEvictDiskReplica = define("BatchEvictDiskReplica", V10, (*BatchEvictDiskReplicaRequest).walk, list(expectedVoid))
)

// The calls on copies, moves and tasks.
var (
	CreateCopyTask           = define("CreateCopyTask", V9, (*CreateCopyTaskRequest).walk, expectedUUID)
	CreateMoveTask           = define("CreateMoveTask", V9, (*CreateMoveTaskRequest).walk, expectedUUID)
	QueryTask                = define("QueryTask", V9, (*QueryTaskRequest).walk, expected((*QueryTaskResponse).walk))
	FetchTasks               = define("FetchTasks", V9, (*FetchTasksRequest).walk, expected(list((*TaskAssignment).walk)))
	MarkTaskToComplete       = define("MarkTaskToComplete", V9, (*MarkTaskToCompleteRequest).walk, expectedVoid)
	CopyStart                = define("CopyStart", V9, (*CopyStartRequest).walk, expected((*CopyStartResponse).walk))
	CopyEnd                  = define("CopyEnd", V9, (*CopyEndRequest).walk, expectedVoid)
	CopyRevoke               = define("CopyRevoke", V9, (*CopyRevokeRequest).walk, expectedVoid)
	MoveStart                = define("MoveStart", V9, (*MoveStartRequest).walk, expected((*MoveStartResponse).walk))
	MoveEnd                  = define("MoveEnd", V9, (*MoveEndRequest).walk, expectedVoid)
	MoveRevoke               = define("MoveRevoke", V9, (*MoveRevokeRequest).walk, expectedVoid)
	DynamicReplicaCopyStart  = define("DynamicReplicaCopyStart", V13, (*DynamicReplicaCopyStartRequest).walk, expected((*CopyStartResponse).walk))
	DynamicReplicaCopyEnd    = define("DynamicReplicaCopyEnd", V13, (*DynamicReplicaCopyEndRequest).walk, expectedVoid)
	DynamicReplicaCopyRevoke = define("DynamicReplicaCopyRevoke", V13, (*DynamicReplicaCopyRevokeRequest).walk, expectedVoid)
)

// The calls of clients that keep objects on a disk of their own.
var (
	MountLocalDiskSegment    = define("MountLocalDiskSegment", V9, (*MountLocalDiskSegmentRequest).walk, expectedVoid)
	UnmountLocalDiskSegment  = define("UnmountLocalDiskSegment", V13, (*UnmountLocalDiskSegmentRequest).walk, expectedVoid)
	OffloadObjectHeartbeat   = define("OffloadObjectHeartbeat", V9, (*OffloadObjectHeartbeatRequest).walk, expectedOffload)
	NotifyOffloadSuccess     = define("NotifyOffloadSuccess", V9, (*NotifyOffloadSuccessRequest).walk, expectedVoid)
	ReportSsdCapacity        = define("ReportSsdCapacity", V11, (*ReportSsdCapacityRequest).walk, expectedVoid)
	PollRemoveAll            = define("PollRemoveAll", V12, (*PollRemoveAllRequest).walk, expectedBool)
	PromotionAllocStart      = define("PromotionAllocStart", V11, (*PromotionAllocStartRequest).walk, expected((*PromotionAllocStartResponse).walk))
	PromotionObjectHeartbeat = define("PromotionObjectHeartbeat", V11, (*PromotionObjectHeartbeatRequest).walk, expectedOffload)
	NotifyPromotionSuccess   = define("NotifyPromotionSuccess", V11, (*NotifyPromotionSuccessRequest).walk, expectedVoid)
	NotifyPromotionFailure   = define("NotifyPromotionFailure", V11, (*NotifyPromotionFailureRequest).walk, expectedVoid)
)

// Functions has every function of the master.
var Functions = []Function{
	ServiceReady, GetFsdir, GetStorageConfig, Ping, MountSegment, ReMountSegment, UnmountSegment, GracefulUnmountSegment,
	QuerySegmentStatus, QuerySegmentStatusByID, BatchQueryIP, MountNoFSegment, ReMountNoFSegment, UnmountNoFSegment,
	GetAllNoFSegments, GetNoFSegmentsByName,
	ExistKey, BatchExistKey, GetReplicaList, BatchGetReplicaList, GetReplicaListByRegex, PutStart, PutEnd, PutRevoke,
	BatchPutStart, BatchPutEnd, BatchPutRevoke, UpsertStart, UpsertEnd, UpsertRevoke, BatchUpsertStart, BatchUpsertEnd,
	BatchUpsertRevoke, Remove, RemoveByRegex, RemoveAll, BatchRemove, BatchReplicaClear, EvictDiskReplica, BatchEvictDiskReplica,
	CreateCopyTask, CreateMoveTask, QueryTask, FetchTasks, MarkTaskToComplete, CopyStart, CopyEnd, CopyRevoke, MoveStart, MoveEnd,
	MoveRevoke, DynamicReplicaCopyStart, DynamicReplicaCopyEnd, DynamicReplicaCopyRevoke,
	MountLocalDiskSegment, UnmountLocalDiskSegment, OffloadObjectHeartbeat, NotifyOffloadSuccess, ReportSsdCapacity, PollRemoveAll,
	PromotionAllocStart, PromotionObjectHeartbeat, NotifyPromotionSuccess, NotifyPromotionFailure,
}

var byID = func() map[uint32]Function {
	m := make(map[uint32]Function, len(Functions))
	for _, f := range Functions {
		m[f.ID()] = f
	}
	return m
}()

// Lookup returns the function of a number, nil if there is none.
func Lookup(id uint32) Function { return byID[id] }
