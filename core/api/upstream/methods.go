package upstream

import "github.com/mooncake-go/mooncake/core/internal/access"

// same are the calls of this project that do what functions of upstream's do, where the names differ.
var same = map[string]string{
	"ServiceReady":           "Ready",
	"ReMountSegment":         "RemountSegments",
	"GracefulUnmountSegment": "UnmountSegment",
	"ExistKey":               "Exist",
	"BatchExistKey":          "Exist",
	"GetReplicaList":         "GetReplicas",
	"BatchGetReplicaList":    "GetReplicas",
	"GetReplicaListByRegex":  "GetReplicasByRegex",
	"BatchPutStart":          "PutStart",
	"BatchPutEnd":            "PutEnd",
	"BatchPutRevoke":         "PutRevoke",
	"UpsertStart":            "PutStart",
	"UpsertEnd":              "PutEnd",
	"UpsertRevoke":           "PutRevoke",
	"BatchUpsertStart":       "PutStart",
	"BatchUpsertEnd":         "PutEnd",
	"BatchUpsertRevoke":      "PutRevoke",
	"BatchRemove":            "Remove",
	"BatchReplicaClear":      "ClearReplicas",
	"BatchQueryIp":           "QueryHosts",
	"MoveStart":              "CopyStart",
	"MoveEnd":                "CopyEnd",
	"MoveRevoke":             "CopyRevoke",
	"CreateCopyTask":         "CreateTask",
	"CreateMoveTask":         "CreateTask",
	"MarkTaskToComplete":     "CompleteTask",
}

// callOf returns the row of the table of calls for a function, nil if there is none.
func callOf(function string) *access.Call {
	if c := access.Find(access.MasterService, method(function)); c != nil {
		return c
	}
	return access.Find(access.UpstreamService, function)
}

// method returns the name under which a function is counted.
func method(function string) string {
	if own := same[function]; own != "" {
		return own
	}
	return function
}
