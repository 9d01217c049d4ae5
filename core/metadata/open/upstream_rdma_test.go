package open_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/open"
)

// TestUpstreamNodeWithRDMA needs a machine with RDMA, and
// MOONCAKE_UPSTREAM_RDMA_DEVICE to name a device of it. It exchanges descriptors, not
// data.
func TestUpstreamNodeWithRDMA(t *testing.T) {
	upstreamPython(t)
	device := os.Getenv("MOONCAKE_UPSTREAM_RDMA_DEVICE")
	if device == "" {
		t.Skip("MOONCAKE_UPSTREAM_RDMA_DEVICE names no device")
	}
	n, err := startNode(t, "127.0.0.1:13001", open.P2PHandshake, device)
	require.NoError(t, err)
	raw, err := fetch(t.Context(), n, open.P2PHandshake)
	require.NoError(t, err)
	t.Logf("%s", raw)
	theirs, err := metadata.DecodeDescriptor(raw)
	require.NoError(t, err)
	assert.Equal(t, "rdma", theirs.Protocol)
	require.NotEmpty(t, theirs.Devices)
	assert.Equal(t, device, theirs.Devices[0].Name)
	require.NotEmpty(t, theirs.Buffers)
	assert.Len(t, theirs.Buffers[0].RKeys, len(theirs.Devices))
	again, err := metadata.EncodeDescriptor(theirs)
	require.NoError(t, err)
	assert.Equal(t, strings.Replace(string(raw), `"rdma_server_name":"",`, "", 1), string(again), "we write what it writes")

	dir, err := open.Open(t.Context(), open.P2PHandshake, open.Options{LocalName: "127.0.0.1", BindHost: "127.0.0.1"})
	require.NoError(t, err)
	defer dir.Close(t.Context())
	const address = 1<<63 + 4096
	ours := &metadata.Descriptor{Name: dir.LocalName(), Protocol: "rdma", TCPProtoVersion: 1, Timestamp: metadata.Timestamp(time.Now()),
		Devices: []metadata.Device{{Name: "a", LID: 1, GID: theirs.Devices[0].GID}, {Name: "b", GID: theirs.Devices[0].GID}},
		Buffers: []metadata.Buffer{{Name: "cpu:0", Addr: address, Length: 4096, RKeys: []uint32{1, 1<<32 - 1}, LKeys: []uint32{2, 3}}}}
	for _, matrix := range []string{"", `{"cpu:0":[["a"],["b"]]}`} {
		ours.Matrix = []byte(matrix)
		require.NoError(t, dir.Publish(t.Context(), ours))
		assert.Equal(t, uint64(address), n.firstBuffer(t, dir.LocalName()), "what the node sees of us, matrix %q", matrix)
	}
}
