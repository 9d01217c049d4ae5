package errs

import "slices"

// Code is an error number of the public API. The numbers and names are those of the
// reference implementation (kvcache-ai/Mooncake, ErrorCode), because connectors branch on
// them: 0 is success, every failure is negative.
type Code int32

// The codes, grouped as the numbers are.
const (
	OK                         Code = 0     // OK
	Internal                   Code = -1    // INTERNAL_ERROR
	BufferOverflow             Code = -10   // BUFFER_OVERFLOW
	ShardIndexOutOfRange       Code = -100  // SHARD_INDEX_OUT_OF_RANGE
	SegmentNotFound            Code = -101  // SEGMENT_NOT_FOUND
	SegmentAlreadyExists       Code = -102  // SEGMENT_ALREADY_EXISTS
	ClientNotFound             Code = -103  // CLIENT_NOT_FOUND
	NoAvailableHandle          Code = -200  // NO_AVAILABLE_HANDLE
	InvalidVersion             Code = -300  // INVALID_VERSION
	InvalidKey                 Code = -400  // INVALID_KEY
	WriteFail                  Code = -500  // WRITE_FAIL
	InvalidParams              Code = -600  // INVALID_PARAMS
	IllegalClient              Code = -601  // ILLEGAL_CLIENT
	InvalidWrite               Code = -700  // INVALID_WRITE
	InvalidRead                Code = -701  // INVALID_READ
	InvalidReplica             Code = -702  // INVALID_REPLICA
	ReplicaIsNotReady          Code = -703  // REPLICA_IS_NOT_READY
	ObjectNotFound             Code = -704  // OBJECT_NOT_FOUND
	ObjectAlreadyExists        Code = -705  // OBJECT_ALREADY_EXISTS
	ObjectHasLease             Code = -706  // OBJECT_HAS_LEASE
	LeaseExpired               Code = -707  // LEASE_EXPIRED
	ObjectHasReplicationTask   Code = -708  // OBJECT_HAS_REPLICATION_TASK
	ObjectNoReplicationTask    Code = -709  // OBJECT_NO_REPLICATION_TASK
	ReplicaNotFound            Code = -710  // REPLICA_NOT_FOUND
	ReplicaAlreadyExists       Code = -711  // REPLICA_ALREADY_EXISTS
	ReplicaIsGone              Code = -712  // REPLICA_IS_GONE
	ReplicaNotInLocalMemory    Code = -713  // REPLICA_NOT_IN_LOCAL_MEMORY
	ObjectReplicaBusy          Code = -714  // OBJECT_REPLICA_BUSY
	TransferFail               Code = -800  // TRANSFER_FAIL
	ChecksumMismatch           Code = -801  // CHECKSUM_MISMATCH
	RPCFail                    Code = -900  // RPC_FAIL
	RPCTimeout                 Code = -901  // RPC_TIMEOUT
	EtcdOperationError         Code = -1000 // ETCD_OPERATION_ERROR
	EtcdKeyNotExist            Code = -1001 // ETCD_KEY_NOT_EXIST
	EtcdTransactionFail        Code = -1002 // ETCD_TRANSACTION_FAIL
	EtcdCtxCancelled           Code = -1003 // ETCD_CTX_CANCELLED
	OpLogEntryNotFound         Code = -1004 // OPLOG_ENTRY_NOT_FOUND
	K8SLeaseOperationError     Code = -1005 // K8S_LEASE_OPERATION_ERROR
	K8SLeaseNotFound           Code = -1006 // K8S_LEASE_NOT_FOUND
	IncompleteOpLogCatchUp     Code = -1007 // INCOMPLETE_OPLOG_CATCH_UP
	UnavailableInCurrentStatus Code = -1010 // UNAVAILABLE_IN_CURRENT_STATUS
	UnavailableInCurrentMode   Code = -1011 // UNAVAILABLE_IN_CURRENT_MODE
	NotSupported               Code = -1012 // NOT_SUPPORTED
	FileNotFound               Code = -1100 // FILE_NOT_FOUND
	FileOpenFail               Code = -1101 // FILE_OPEN_FAIL
	FileReadFail               Code = -1102 // FILE_READ_FAIL
	FileWriteFail              Code = -1103 // FILE_WRITE_FAIL
	FileInvalidBuffer          Code = -1104 // FILE_INVALID_BUFFER
	FileLockFail               Code = -1105 // FILE_LOCK_FAIL
	FileInvalidHandle          Code = -1106 // FILE_INVALID_HANDLE
	BucketNotFound             Code = -1200 // BUCKET_NOT_FOUND
	BucketAlreadyExists        Code = -1201 // BUCKET_ALREADY_EXISTS
	KeysExceedBucketLimit      Code = -1202 // KEYS_EXCEED_BUCKET_LIMIT
	KeysUltraLimit             Code = -1203 // KEYS_ULTRA_LIMIT
	UnableOffload              Code = -1300 // UNABLE_OFFLOAD
	UnableOffloading           Code = -1301 // UNABLE_OFFLOADING
	TaskNotFound               Code = -1400 // TASK_NOT_FOUND
	TaskPendingLimitExceeded   Code = -1401 // TASK_PENDING_LIMIT_EXCEEDED
	JobNotFound                Code = -1402 // JOB_NOT_FOUND
	SerializeUnsupported       Code = -1500 // SERIALIZE_UNSUPPORTED
	SerializeFail              Code = -1501 // SERIALIZE_FAIL
	DeserializeFail            Code = -1502 // DESERIALIZE_FAIL
	PersistentFail             Code = -1503 // PERSISTENT_FAIL
	DFSNetworkTimeout          Code = -1600 // DFS_NETWORK_TIMEOUT
	DFSServiceUnavailable      Code = -1601 // DFS_SERVICE_UNAVAILABLE
	DFSQuotaExceeded           Code = -1602 // DFS_QUOTA_EXCEEDED
	DFSPermissionDenied        Code = -1603 // DFS_PERMISSION_DENIED
	DFSStaleHandle             Code = -1604 // DFS_STALE_HANDLE
	DFSPartialWrite            Code = -1605 // DFS_PARTIAL_WRITE
	TenantQuotaExceeded        Code = -1700 // TENANT_QUOTA_EXCEEDED
	TenantNotRegistered        Code = -1701 // TENANT_NOT_REGISTERED
	TenantNotEmpty             Code = -1702 // TENANT_NOT_EMPTY
)

var codeNames = map[Code]string{
	OK:                         "OK",
	Internal:                   "INTERNAL_ERROR",
	BufferOverflow:             "BUFFER_OVERFLOW",
	ShardIndexOutOfRange:       "SHARD_INDEX_OUT_OF_RANGE",
	SegmentNotFound:            "SEGMENT_NOT_FOUND",
	SegmentAlreadyExists:       "SEGMENT_ALREADY_EXISTS",
	ClientNotFound:             "CLIENT_NOT_FOUND",
	NoAvailableHandle:          "NO_AVAILABLE_HANDLE",
	InvalidVersion:             "INVALID_VERSION",
	InvalidKey:                 "INVALID_KEY",
	WriteFail:                  "WRITE_FAIL",
	InvalidParams:              "INVALID_PARAMS",
	IllegalClient:              "ILLEGAL_CLIENT",
	InvalidWrite:               "INVALID_WRITE",
	InvalidRead:                "INVALID_READ",
	InvalidReplica:             "INVALID_REPLICA",
	ReplicaIsNotReady:          "REPLICA_IS_NOT_READY",
	ObjectNotFound:             "OBJECT_NOT_FOUND",
	ObjectAlreadyExists:        "OBJECT_ALREADY_EXISTS",
	ObjectHasLease:             "OBJECT_HAS_LEASE",
	LeaseExpired:               "LEASE_EXPIRED",
	ObjectHasReplicationTask:   "OBJECT_HAS_REPLICATION_TASK",
	ObjectNoReplicationTask:    "OBJECT_NO_REPLICATION_TASK",
	ReplicaNotFound:            "REPLICA_NOT_FOUND",
	ReplicaAlreadyExists:       "REPLICA_ALREADY_EXISTS",
	ReplicaIsGone:              "REPLICA_IS_GONE",
	ReplicaNotInLocalMemory:    "REPLICA_NOT_IN_LOCAL_MEMORY",
	ObjectReplicaBusy:          "OBJECT_REPLICA_BUSY",
	TransferFail:               "TRANSFER_FAIL",
	ChecksumMismatch:           "CHECKSUM_MISMATCH",
	RPCFail:                    "RPC_FAIL",
	RPCTimeout:                 "RPC_TIMEOUT",
	EtcdOperationError:         "ETCD_OPERATION_ERROR",
	EtcdKeyNotExist:            "ETCD_KEY_NOT_EXIST",
	EtcdTransactionFail:        "ETCD_TRANSACTION_FAIL",
	EtcdCtxCancelled:           "ETCD_CTX_CANCELLED",
	OpLogEntryNotFound:         "OPLOG_ENTRY_NOT_FOUND",
	K8SLeaseOperationError:     "K8S_LEASE_OPERATION_ERROR",
	K8SLeaseNotFound:           "K8S_LEASE_NOT_FOUND",
	IncompleteOpLogCatchUp:     "INCOMPLETE_OPLOG_CATCH_UP",
	UnavailableInCurrentStatus: "UNAVAILABLE_IN_CURRENT_STATUS",
	UnavailableInCurrentMode:   "UNAVAILABLE_IN_CURRENT_MODE",
	NotSupported:               "NOT_SUPPORTED",
	FileNotFound:               "FILE_NOT_FOUND",
	FileOpenFail:               "FILE_OPEN_FAIL",
	FileReadFail:               "FILE_READ_FAIL",
	FileWriteFail:              "FILE_WRITE_FAIL",
	FileInvalidBuffer:          "FILE_INVALID_BUFFER",
	FileLockFail:               "FILE_LOCK_FAIL",
	FileInvalidHandle:          "FILE_INVALID_HANDLE",
	BucketNotFound:             "BUCKET_NOT_FOUND",
	BucketAlreadyExists:        "BUCKET_ALREADY_EXISTS",
	KeysExceedBucketLimit:      "KEYS_EXCEED_BUCKET_LIMIT",
	KeysUltraLimit:             "KEYS_ULTRA_LIMIT",
	UnableOffload:              "UNABLE_OFFLOAD",
	UnableOffloading:           "UNABLE_OFFLOADING",
	TaskNotFound:               "TASK_NOT_FOUND",
	TaskPendingLimitExceeded:   "TASK_PENDING_LIMIT_EXCEEDED",
	JobNotFound:                "JOB_NOT_FOUND",
	SerializeUnsupported:       "SERIALIZE_UNSUPPORTED",
	SerializeFail:              "SERIALIZE_FAIL",
	DeserializeFail:            "DESERIALIZE_FAIL",
	PersistentFail:             "PERSISTENT_FAIL",
	DFSNetworkTimeout:          "DFS_NETWORK_TIMEOUT",
	DFSServiceUnavailable:      "DFS_SERVICE_UNAVAILABLE",
	DFSQuotaExceeded:           "DFS_QUOTA_EXCEEDED",
	DFSPermissionDenied:        "DFS_PERMISSION_DENIED",
	DFSStaleHandle:             "DFS_STALE_HANDLE",
	DFSPartialWrite:            "DFS_PARTIAL_WRITE",
	TenantQuotaExceeded:        "TENANT_QUOTA_EXCEEDED",
	TenantNotRegistered:        "TENANT_NOT_REGISTERED",
	TenantNotEmpty:             "TENANT_NOT_EMPTY",
}

// String returns the name that clients print, UNKNOWN_ERROR for a number that is not a code.
func (c Code) String() string {
	if n, ok := codeNames[c]; ok {
		return n
	}
	return "UNKNOWN_ERROR"
}

// Err returns a sentinel for errors.Is that matches every error with this code.
func (c Code) Err() error { return &Error{Code: c, Class: c.class()} }

// Codes returns every known code, for the tables at the edges and their tests.
func Codes() []Code {
	out := make([]Code, 0, len(codeNames))
	for c := range codeNames {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Code) int { return int(b) - int(a) })
	return out
}

// class is the default class of a code.
func (c Code) class() Class {
	switch c {
	case RPCFail, RPCTimeout, TransferFail, ReplicaIsGone:
		return ClassTransientPeer
	case ChecksumMismatch, LeaseExpired:
		return ClassTransientPath
	case InvalidKey, InvalidParams, InvalidVersion, IllegalClient, InvalidWrite, InvalidRead, InvalidReplica, BufferOverflow,
		ObjectNotFound, ObjectAlreadyExists, NotSupported:
		return ClassPermanent
	default:
		return ClassUnknown
	}
}
