package calls

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

var (
	vectorClient  = model.UUID{Hi: 0x1122334455667788, Lo: 0x99aabbccddeeff00}
	vectorSegment = Segment{
		ID: model.UUID{Hi: 0xa1a2a3a4a5a6a7a8, Lo: 0xb1b2b3b4b5b6b7b8}, Name: "127.0.0.1:12345", Base: 0x7f0000000000, Size: 16 << 20,
		Endpoint: "127.0.0.1:23456", Protocol: "tcp",
	}
	vectorConfig = ReplicateConfig{Replicas: 1, PreferredSegment: "127.0.0.1:12345"}
	vectorMemory = Descriptor{
		ID: 7, Buffer: Buffer{Size: 4096, Address: 0x7f0000001000, Protocol: "tcp", Endpoint: "127.0.0.1:23456"}, Status: StatusComplete,
	}
	vectorDisk  = Descriptor{ID: 8, Kind: TypeDisk, Disk: &DiskFile{Path: "/mnt/x/k", Size: 4096}, Status: StatusProcessing}
	vectorLocal = Descriptor{ID: 9, Kind: TypeLocalDisk, LocalDisk: &LocalDisk{Client: vectorClient, Size: 4096, Endpoint: "127.0.0.1:9"}, Status: StatusComplete}
	replicas5s  = ReplicaList{Replicas: []Descriptor{vectorMemory}, LeaseTTL: 5000}
)

// Parts of the vectors.
const (
	hexClient  = "8877665544332211 00ffeeddccbbaa99"
	hexSegment = "a8a7a6a5a4a3a2a1b8b7b6b5b4b3b2b1 0f3132372e302e302e313a3132333435 00000000007f0000 0000000100000000 0f3132372e302e302e313a3233343536 03746370"
	hexBuffer  = "0010000000000000 00100000007f0000 03746370 0f3132372e302e302e313a3233343536"
	hexMemory  = "0700000000000000 00 " + hexBuffer + " 03000000"
	hexTenant  = "0764656661756c74"
)

func request[Q, R any](call *Call[Q, R], v Version, q Q, want string) func(*testing.T) {
	return func(t *testing.T) {
		want := unhex(t, want)
		got, err := call.AppendRequest(nil, v, &q)
		require.NoError(t, err)
		require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(got))
		var decoded Q
		versions, err := call.DecodeRequest(want, &decoded)
		require.NoError(t, err)
		require.True(t, versions.Has(v))
		require.Equal(t, call.Accepts(want), versions)
		require.Equal(t, q, decoded)
	}
}

func response[Q, R any](call *Call[Q, R], v Version, r R, want string) func(*testing.T) {
	return func(t *testing.T) {
		want := unhex(t, want)
		got, err := call.AppendResponse(nil, v, &r)
		require.NoError(t, err)
		require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(got))
		var decoded R
		require.NoError(t, call.DecodeResponse(want, v, &decoded))
		require.Equal(t, r, decoded)
	}
}

func unhex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

func ok[T any](v T) Expected[T] { return Expected[T]{Value: v} }

func fail[T any](code errs.Code) Expected[T] { return Expected[T]{Code: code} }

func TestRequestVectors(t *testing.T) {
	config9 := "0100000000000000 00 00 0f3132372e302e302e313a3132333435 00"
	config12 := "0100000000000000 0000000000000000 00 00 00 0f3132372e302e302e313a3132333435 00 00 00 00 00"
	config13 := "0100000000000000 0000000000000000 0000000000000000 00 00 00 00 0f3132372e302e302e313a3132333435 00 00 00 00 00"
	put := PutStartRequest{Client: vectorClient, Key: "key-1", Size: 4096, Config: vectorConfig}
	puts := BatchPutStartRequest{Client: vectorClient, Keys: []string{"key-1", "key-2"}, Sizes: []uint64{4096, 8192}, Config: vectorConfig}
	end := PutEndRequest{Client: vectorClient, ObjectMeta: ObjectMeta{Key: "key-1"}}
	tenantPut, tenantEnd := put, end
	tenantPut.Tenant, tenantEnd.Tenant = "default", "default"
	for name, check := range map[string]func(*testing.T){
		"Ping":                   request(Ping, V9, PingRequest{vectorClient}, "e0836d3c"+hexClient),
		"MountSegment 9":         request(MountSegment, V9, MountSegmentRequest{vectorSegment, vectorClient}, "18cc2f0f"+hexSegment+hexClient),
		"MountSegment 12":        request(MountSegment, V12, MountSegmentRequest{vectorSegment, vectorClient}, "ae0df79e"+hexSegment+"00"+hexClient),
		"MountSegment 13":        request(MountSegment, V13, MountSegmentRequest{vectorSegment, vectorClient}, "ae0df79e"+hexSegment+"00"+hexClient),
		"UnmountSegment":         request(UnmountSegment, V11, UnmountSegmentRequest{vectorSegment.ID, vectorClient}, "e012c5d4"+hexSegment[:32]+hexClient),
		"PutStart 9":             request(PutStart, V9, put, "46586e78"+hexClient+"056b65792d31 0010000000000000"+config9),
		"PutStart 12":            request(PutStart, V12, tenantPut, "5cea2069"+hexClient+"056b65792d31 0010000000000000"+config12+hexTenant),
		"PutStart 13":            request(PutStart, V13, tenantPut, "0ebd85e3"+hexClient+"056b65792d31 0010000000000000"+config13+hexTenant),
		"BatchPutStart 9":        request(BatchPutStart, V9, puts, "ce680599"+hexClient+"02056b65792d31056b65792d32 02 0010000000000000 0020000000000000"+config9),
		"PutEnd 9":               request(PutEnd, V9, end, "e02d2361"+hexClient+"056b65792d31 00000000"),
		"PutEnd 12":              request(PutEnd, V12, tenantEnd, "8a227a1b"+hexClient+"056b65792d31 00000000"+hexTenant),
		"PutEnd 13":              request(PutEnd, V13, tenantEnd, "229281d1"+hexClient+"056b65792d31 00 00000000"+hexTenant),
		"ExistKey 12":            request(ExistKey, V12, ExistKeyRequest{"key-1", "default"}, "d81ef97c 056b65792d31"+hexTenant),
		"GetReplicaList 13":      request(GetReplicaList, V13, ExistKeyRequest{"key-1", "default"}, "d81ef97c 056b65792d31"+hexTenant),
		"ExistKey 9":             request(ExistKey, V9, ExistKeyRequest{Key: "key-1"}, "76facf9d 056b65792d31"),
		"Remove 9":               request(Remove, V9, RemoveRequest{Key: "key-1"}, "0089cfdb 056b65792d31 00"),
		"RemoveAll 9":            request(RemoveAll, V9, RemoveAllRequest{}, "d8ffc813 00"),
		"BatchGetReplicaList 11": request(BatchGetReplicaList, V11, BatchExistKeyRequest{Keys: []string{"key-1", "missing"}}, "1ae1868a 02 056b65792d31 076d697373696e67"),
	} {
		t.Run(name, check)
	}
}

func TestResponseVectors(t *testing.T) {
	pair := []Descriptor{vectorMemory, vectorDisk}
	three := ReplicaList{Replicas: []Descriptor{vectorMemory, vectorDisk, vectorLocal}, LeaseTTL: 5000}
	hexDisk := " 082f6d6e742f782f6b 0010000000000000 02000000"
	for name, check := range map[string]func(*testing.T){
		"ServiceReady":        response(ServiceReady, V9, ok("2.0.0"), "34ccb31c 01 05322e302e30"),
		"GetFsdir":            response(GetFsdir, V13, ok(""), "34ccb31c 01 00"),
		"GetStorageConfig":    response(GetStorageConfig, V9, ok(StorageConfig{Eviction: true}), "ea68b59c 01 00 01 0000000000000000"),
		"Ping":                response(Ping, V9, ok(PingResponse{1, ClientOK}), "528f2a74 01 0100000000000000 01000000"),
		"true":                response(ExistKey, V9, ok(true), "d200e890 01 01"),
		"false":               response(ExistKey, V13, ok(false), "d200e890 01 00"),
		"missing":             response(ExistKey, V9, fail[bool](errs.ObjectNotFound), "d200e890 00 40fdffff"),
		"void":                response(PutEnd, V9, ok(Void{}), "cc6828af 01"),
		"exists":              response(PutEnd, V9, fail[Void](errs.ObjectAlreadyExists), "cc6828af 00 3ffdffff"),
		"count":               response(RemoveByRegex, V9, ok(int64(3)), "fe8133b8 01 0300000000000000"),
		"bare count":          response(RemoveAll, V9, int64(3), "34686686 0300000000000000"),
		"batch of bools":      response(BatchExistKey, V12, []Expected[bool]{ok(true), ok(false)}, "5c8c5f2a 02 0101 0100"),
		"batch of voids":      response(BatchPutEnd, V9, []Expected[Void]{ok(Void{}), fail[Void](errs.ReplicaIsNotReady)}, "ce52fc39 02 01 00 41fdffff"),
		"no tasks 9":          response(FetchTasks, V9, ok[[]TaskAssignment](nil), "9ee8d6d5 01 00"),
		"no tasks 10":         response(FetchTasks, V10, ok[[]TaskAssignment](nil), "2645e159 01 00"),
		"PutStart 9":          response(PutStart, V9, ok([]Descriptor{vectorMemory}), "b4e540eb 01 01"+hexMemory),
		"PutStart 12":         response(PutStart, V12, ok([]Descriptor{vectorMemory}), "bacde512 01 01"+hexMemory),
		"PutStart 13":         response(PutStart, V13, ok([]Descriptor{vectorMemory}), "a62739c4 01 01"+hexMemory),
		"memory and disk 9":   response(PutStart, V9, ok(pair), "b4e540eb 01 02"+hexMemory+"0800000000000000 01"+hexDisk),
		"memory and disk 12":  response(PutStart, V12, ok(pair), "bacde512 01 02"+hexMemory+"0800000000000000 02"+hexDisk),
		"GetReplicaList 9":    response(GetReplicaList, V9, ok(replicas5s), "40cb6283 01 01"+hexMemory+"8813000000000000"),
		"GetReplicaList 12":   response(GetReplicaList, V12, ok(replicas5s), "40f4ec75 01 01"+hexMemory+"8813000000000000"),
		"GetReplicaList 13":   response(GetReplicaList, V13, ok(replicas5s), "6c27c688 01 01"+hexMemory+"8813000000000000 00"),
		"three kinds 13":      response(GetReplicaList, V13, ok(three), "6c27c688 01 03"+hexMemory+"0800000000000000 02"+hexDisk+"0900000000000000 03"+hexClient+"0010000000000000 0b3132372e302e302e313a39 03000000 8813000000000000 00"),
		"BatchGetReplicaList": response(BatchGetReplicaList, V9, []Expected[ReplicaList]{ok(replicas5s), fail[ReplicaList](errs.ObjectNotFound)}, "a04c4c9d 02 01 01"+hexMemory+"8813000000000000 00 40fdffff"),
		"by regex 9":          response(GetReplicaListByRegex, V9, ok([]KeyReplicas{{"k1", []Descriptor{vectorMemory}}}), "72a4dc11 01 01 026b31 01"+hexMemory),
	} {
		t.Run(name, check)
	}
}

// TestLiterals has requests of a client that sends the types of its arguments.
func TestLiterals(t *testing.T) {
	var put PutStartRequest
	versions, err := PutStart.DecodeRequest(unhex(t, "47586e78 04 fdfd04048989ff800c04fd040b84800c800c0bffff00"+hexClient+
		"056b65792d31 0010000000000000 0100000000000000 00 00 0f3132372e302e302e313a3132333435 00"), &put)
	require.NoError(t, err)
	require.Equal(t, Only(V9), versions)
	require.Equal(t, PutStartRequest{Client: vectorClient, Key: "key-1", Size: 4096, Config: vectorConfig}, put)
}

// TestOtherReleases has requests of releases that are not served. The error shows what the client has
// sent.
func TestOtherReleases(t *testing.T) {
	old := unhex(t, "0707b42e 04 fd800c8404fd040b800c0bffff 00 00")
	require.Zero(t, PutStart.Accepts(old))
	_, err := PutStart.DecodeRequest(old, new(PutStartRequest))
	require.True(t, errs.Is(err, errs.InvalidVersion))
	require.ErrorContains(t, err, "decode a request of PutStart: INVALID_VERSION: its arguments are those of no version that is served: hash 2eb40706, {string list<u64> {u64 bool string bool}} (use a client")
	_, err = PutStart.DecodeRequest(unhex(t, "0607b42e 00"), new(PutStartRequest))
	require.ErrorContains(t, err, "hash 2eb40706 (use a client")
	require.Zero(t, UpsertStart.Accepts(make([]byte, 100)), "no version has the hash 0, least of all one without the function")
	_, err = RemoveAll.DecodeRequest(nil, new(RemoveAllRequest))
	require.ErrorContains(t, err, "request of RemoveAll: structpack: read the head of a message: DESERIALIZE_FAIL: 0 bytes end inside the hash")
}

func TestVersionsThatLackSomething(t *testing.T) {
	_, err := UpsertStart.AppendRequest(nil, V9, new(PutStartRequest))
	require.ErrorContains(t, err, "encode or decode UpsertStart: INVALID_VERSION: version 9 does not have it, versions 10,11,12,13 do")
	out, err := PutStart.AppendResponse([]byte("before"), V12, &Expected[[]Descriptor]{Value: []Descriptor{{Kind: TypeDFS}}})
	require.ErrorContains(t, err, "version 12 has no replicas of kind 100")
	require.Equal(t, "before", string(out))
	require.ErrorContains(t, PutStart.DecodeResponse(unhex(t, "b4e540eb 01 00"), V12, new(Expected[[]Descriptor])), "it has the shape eb40e5b4, in version 12 12e5cdba")
	out, err = PutStart.AppendResponse(nil, V13, &Expected[[]Descriptor]{Value: []Descriptor{{Kind: TypeDisk}}})
	require.NoError(t, err)
	require.Equal(t, append(unhex(t, "a62739c4 01 01"), append(append(make([]byte, 8), 2), make([]byte, 13)...)...), out, "a missing alternative is zeros")
}

func TestVersions(t *testing.T) {
	require.Equal(t, "9,10,11,12,13", All.String())
	require.Equal(t, "12,13", Since(V12).String())
	require.Equal(t, V13, All.Newest())
	require.Equal(t, V10, (Only(V9) | Only(V10)).Newest())
	require.Zero(t, Versions(0).Newest())
	require.False(t, All.Has(8))
	require.False(t, All.Has(14))
}

// TestKeysOfPuts: the master can keep a key without the rest of the request.
func TestKeysOfPuts(t *testing.T) {
	start := func(s string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(s))) }
	body, err := PutStart.AppendRequest(nil, V13, &PutStartRequest{Key: "key-1", Config: vectorConfig, Tenant: "default"})
	require.NoError(t, err)
	var put PutStartRequest
	_, err = PutStart.DecodeRequest(body, &put)
	require.NoError(t, err)
	require.NotEqual(t, bytes.LastIndex(body, []byte("default"))-bytes.Index(body, []byte("key-1")), int(start(put.Tenant)-start(put.Key)))

	body, err = BatchPutStart.AppendRequest(nil, V9, &BatchPutStartRequest{Keys: []string{"key-1", "key-2"}})
	require.NoError(t, err)
	var puts BatchPutStartRequest
	_, err = BatchPutStart.DecodeRequest(body, &puts)
	require.NoError(t, err)
	require.NotEqual(t, uintptr(len("key-1")+1), start(puts.Keys[1])-start(puts.Keys[0]))
}
