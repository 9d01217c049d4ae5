package metadata_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// several is a descriptor of a node with several protocols at once.
const several = `{"name":"n","protocol":["nvlink","tcp","rdma"],"tcp_data_port":16001,"tcp_proto_version":2,"priority_matrix":{"cpu:0":[["d"],[]]},
	"devices":[{"name":"d","lid":0,"gid":"::"}],"buffers":[
	{"name":"n","addr":4096,"length":1,"protocol":"tcp"},
	{"name":"cpu:0","addr":4096,"length":2,"protocol":"rdma","rkey":[1],"lkey":[2]},
	{"name":"cuda:0","addr":4096,"length":3,"protocol":"nvlink","shm_name":"00"},
	{"name":"cuda:0","addr":0,"length":3,"protocol":"nvlink"}]}`

func TestSeveralProtocols(t *testing.T) {
	d, err := metadata.DecodeDescriptor([]byte(several))
	require.NoError(t, err)
	assert.Equal(t, "rdma", d.Protocol)
	assert.Equal(t, []string{"nvlink", "tcp", "rdma"}, d.Protocols)
	assert.Len(t, d.Buffers, 3)
	_, err = metadata.EncodeDescriptor(d)
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err), "most nodes could not read it")

	rdma, ok := d.For("rdma")
	require.True(t, ok)
	assert.Equal(t, &metadata.Descriptor{Name: "n", Protocol: "rdma", TCPDataPort: 16001, TCPProtoVersion: 2,
		Devices: []metadata.Device{{Name: "d", GID: "::"}}, Matrix: []byte(`{"cpu:0":[["d"],[]]}`),
		Buffers: []metadata.Buffer{{Name: "cpu:0", Addr: 4096, Length: 2, RKeys: []uint32{1}, LKeys: []uint32{2}}}}, rdma)
	tcp, ok := d.For("tcp")
	require.True(t, ok)
	assert.Equal(t, &metadata.Descriptor{Name: "n", Protocol: "tcp", TCPDataPort: 16001, TCPProtoVersion: 2,
		Buffers: []metadata.Buffer{{Name: "n", Addr: 4096, Length: 1}}}, tcp)
	_, ok = d.For("cxl")
	assert.False(t, ok)

	one, ok := tcp.For("tcp")
	assert.True(t, ok && one == tcp)
	_, ok = tcp.For("rdma")
	assert.False(t, ok)

	d, err = metadata.DecodeDescriptor([]byte(`{"name":"n","protocol":["hip","tcp"],"buffers":[{"name":"n","addr":1,"length":1}]}`))
	require.NoError(t, err)
	assert.Equal(t, "tcp", d.Protocol)
	one, _ = d.For("tcp")
	assert.Len(t, one.Buffers, 1, "a buffer that tells no protocol has the best one")
	d, err = metadata.DecodeDescriptor([]byte(`{"name":"n","protocol":["hip","maca"]}`))
	require.NoError(t, err)
	assert.Equal(t, "hip", d.Protocol)
}

func TestRulesOfTheFamily(t *testing.T) {
	buffer := func(protocol, keys string) string {
		return `{"name":"n","protocol":` + protocol + `,"devices":[{"name":"d","lid":0,"gid":"::"}],"buffers":[{"name":"cpu:0","addr":1,"length":1,"protocol":"rdma"` + keys + `}]}`
	}
	for name, text := range map[string]string{
		"one key for each device":        buffer(`"rdma"`, `,"rkey":[4294967295],"lkey":[1]`),
		"no keys":                        buffer(`"rdma"`, ``),
		"empty rkey":                     buffer(`"rdma"`, `,"rkey":[],"lkey":[]`),
		"empty rkey, whatever lkey says": buffer(`"rdma"`, `,"rkey":[],"lkey":[1,2,3]`),
		"null keys":                      buffer(`"rdma"`, `,"rkey":null,"lkey":null`),
		"barex with more keys":           buffer(`"barex"`, `,"rkey":[1,2],"lkey":[1,2]`),
		"efa with 64 bits":               buffer(`"efa"`, `,"rkey":[18446744073709551615],"lkey":[1]`),
		"no keys of a list":              buffer(`["rdma"]`, ``),
	} {
		_, err := metadata.DecodeDescriptor([]byte(text))
		assert.NoError(t, err, name)
	}
	for name, text := range map[string]string{
		"more keys than devices":   buffer(`"rdma"`, `,"rkey":[1,2],"lkey":[1,2]`),
		"fewer local keys":         buffer(`"rdma"`, `,"rkey":[1],"lkey":[]`),
		"no local keys":            buffer(`"rdma"`, `,"rkey":[1]`),
		"33 bits":                  buffer(`"rdma"`, `,"rkey":[4294967296],"lkey":[1]`),
		"negative":                 buffer(`"rdma"`, `,"rkey":[-1],"lkey":[1]`),
		"barex, fewer local keys":  buffer(`"barex"`, `,"rkey":[1,2],"lkey":[1]`),
		"efa, more than devices":   buffer(`"efa"`, `,"rkey":[1,2],"lkey":[1,2]`),
		"of a list":                buffer(`["rdma"]`, `,"rkey":[1,2],"lkey":[1,2]`),
		"device without name":      `{"protocol":"rdma","devices":[{"name":"","gid":"::"}]}`,
		"device without gid":       `{"protocol":"rdma","devices":[{"name":"d","gid":""}]}`,
		"lid":                      `{"protocol":"rdma","devices":[{"name":"d","gid":"::","lid":-1}]}`,
		"buffer without name":      `{"protocol":"rdma","buffers":[{"name":"","addr":1,"length":1}]}`,
		"buffer without address":   `{"protocol":"rdma","buffers":[{"name":"b","addr":0,"length":1}]}`,
		"matrix is a list":         `{"protocol":"rdma","priority_matrix":[]}`,
		"matrix with one list":     `{"protocol":"rdma","priority_matrix":{"cpu:0":[["d"]]}}`,
		"matrix with three lists":  `{"protocol":"rdma","priority_matrix":{"cpu:0":[["d"],[],[]]}}`,
		"matrix with a null list":  `{"protocol":"rdma","priority_matrix":{"cpu:0":[["d"],null]}}`,
		"matrix with numbers":      `{"protocol":"rdma","priority_matrix":{"cpu:0":[[1],[]]}}`,
		"matrix with an empty one": `{"protocol":"rdma","priority_matrix":{"cpu:0":[[""],[]]}}`,
		"empty list of protocols":  `{"protocol":[]}`,
		"list of numbers":          `{"protocol":[1]}`,
		"list with an empty name":  `{"protocol":["tcp",""]}`,
	} {
		_, err := metadata.DecodeDescriptor([]byte(text))
		assert.Equal(t, errs.DeserializeFail, errs.CodeOf(err), name)
	}
	for name, d := range map[string]metadata.Descriptor{
		"more keys than devices": {Buffers: []metadata.Buffer{{Name: "b", Addr: 1, Length: 1, RKeys: []uint32{1}, LKeys: []uint32{1}}}},
		"device without gid":     {Devices: []metadata.Device{{Name: "d"}}},
		"device not UTF-8":       {Devices: []metadata.Device{{Name: "\xff", GID: "::"}}},
		"server name":            {RDMAServerName: "\xff"},
		"host of data":           {TCPDataHost: "\xff"},
	} {
		d.Protocol = "rdma"
		_, err := metadata.EncodeDescriptor(&d)
		assert.Equal(t, errs.InvalidParams, errs.CodeOf(err), name)
	}
}
