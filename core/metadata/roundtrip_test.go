package metadata_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// golden returns the descriptors in a file of lines.
func golden(t testing.TB, file string) []string {
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var out []string
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "{") {
			out = append(out, strings.TrimSuffix(line, "\n"))
		}
	}
	return out
}

func goldenRDMA(t testing.TB) []string {
	out := golden(t, "testdata/rdma.txt")
	require.Len(t, out, 6)
	return out
}

// TestLaterRelease: a key that is empty is left out, which says the same.
func TestLaterRelease(t *testing.T) {
	line := golden(t, "testdata/tcp.txt")[0]
	d, err := metadata.DecodeDescriptor([]byte(line))
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1", d.TCPDataHost)
	back, err := metadata.EncodeDescriptor(d)
	require.NoError(t, err)
	assert.Equal(t, strings.Replace(line, `"rdma_server_name":"",`, "", 1), string(back))
}

func TestGoldenRDMA(t *testing.T) {
	lines := goldenRDMA(t)
	for _, line := range lines {
		for _, end := range []string{"", "\n"} { // as over HTTP, and in etcd and redis
			d, err := metadata.DecodeDescriptor([]byte(line + end))
			require.NoError(t, err, line)
			back, err := metadata.EncodeDescriptor(d)
			require.NoError(t, err, line)
			assert.Equal(t, line, string(back))
		}
	}
	d, err := metadata.DecodeDescriptor([]byte(lines[0]))
	require.NoError(t, err)
	assert.Equal(t, metadata.Device{Name: "mlx5_1", LID: 65535, GID: "fe:80:00:00:00:00:00:00:02:16:3e:ff:fe:00:00:01"}, d.Devices[1])
	assert.Equal(t, metadata.Buffer{Name: "cuda:1", Addr: 18446744073709486080, Length: 65535, RKeys: []uint32{3, 4}, LKeys: []uint32{1, 2}}, d.Buffers[1])
	assert.JSONEq(t, `{"cpu:0":[["mlx5_0"],["mlx5_1"]],"cpu:1":[["mlx5_1"],["mlx5_0"]],"cuda:1":[["mlx5_1"],[]]}`, string(d.Matrix))
	d, err = metadata.DecodeDescriptor([]byte(lines[1]))
	require.NoError(t, err)
	assert.Equal(t, "10.1.0.2:12001", d.RDMAServerName)
	assert.Nil(t, d.Matrix)
	assert.Nil(t, d.Buffers[0].RKeys)
}

func TestWhatOnlyTheFamilyPublishes(t *testing.T) {
	d := metadata.Descriptor{Name: "n", Protocol: "tcp", Devices: []metadata.Device{{Name: "d", GID: "::"}}, Matrix: []byte(`{"*":[["d"],[]]}`),
		Buffers: []metadata.Buffer{{Name: "n", Addr: 1, Length: 1, RKeys: []uint32{1}, LKeys: []uint32{1}}}}
	b, err := metadata.EncodeDescriptor(&d)
	require.NoError(t, err)
	assert.Equal(t, `{"buffers":[{"addr":1,"length":1,"name":"n"}],"name":"n","protocol":"tcp","tcp_data_port":0,"tcp_proto_version":0,"timestamp":""}`, string(b))
}

func TestMatrixIsWrittenInOneForm(t *testing.T) {
	d := metadata.Descriptor{Name: "n", Protocol: "rdma", Devices: []metadata.Device{{Name: "a", GID: "::"}, {Name: "b", GID: "::"}}}
	for in, want := range map[string]string{
		"":     "null",
		"null": "null",
		"{}":   "null",
		"{ \"cuda:0\":[[\"b\"],[]],\n \"cpu:0\" : [[\"a\"], [\"b\"]]}": `{"cpu:0":[["a"],["b"]],"cuda:0":[["b"],[]]}`,
	} {
		d.Matrix = json.RawMessage(in)
		b, err := metadata.EncodeDescriptor(&d)
		require.NoError(t, err, in)
		assert.Contains(t, string(b), `"priority_matrix":`+want+`,`)
	}
	for _, in := range []string{`{"cpu:0":[["c"],[]]}`, `{"cpu:0":[["a"]]}`, `[]`, `{`} {
		d.Matrix = json.RawMessage(in)
		_, err := metadata.EncodeDescriptor(&d)
		assert.Equal(t, errs.InvalidParams, errs.CodeOf(err), in)
	}
}

// drawDescriptor draws a descriptor that may be published.
func drawDescriptor(t *rapid.T) *metadata.Descriptor {
	d := &metadata.Descriptor{
		Name: rapid.StringN(0, 20, 200).Draw(t, "name"), Protocol: rapid.SampledFrom([]string{"tcp", "rdma", "efa"}).Draw(t, "protocol"),
		TCPDataPort: rapid.IntRange(0, 65535).Draw(t, "port"), TCPProtoVersion: rapid.IntRange(0, 9).Draw(t, "version"),
		Timestamp: rapid.String().Draw(t, "time"), RDMAServerName: rapid.StringN(0, 9, 90).Draw(t, "server"), TCPDataHost: rapid.StringN(0, 9, 90).Draw(t, "host"),
	}
	matrix := map[string][][]string{}
	if d.Protocol != "tcp" {
		for i := range rapid.IntRange(0, 3).Draw(t, "devices") {
			v := metadata.Device{Name: fmt.Sprint("d", i), LID: rapid.Uint32().Draw(t, "lid"), GID: rapid.StringN(1, 9, 90).Draw(t, "gid")}
			d.Devices = append(d.Devices, v)
			matrix[rapid.SampledFrom([]string{"cpu:0", "cpu:1", "*"}).Draw(t, "location")] = [][]string{{v.Name}, {}}
		}
	}
	if len(matrix) > 0 {
		d.Matrix, _ = json.Marshal(matrix)
	}
	span := func() (uint64, uint64) {
		addr := rapid.Uint64Range(1, 1<<64-2).Draw(t, "addr")
		return addr, rapid.Uint64Range(1, 1<<64-1-addr).Draw(t, "length")
	}
	for range rapid.IntRange(0, 3).Draw(t, "buffers") {
		addr, length := span()
		b := metadata.Buffer{Name: rapid.StringN(1, 9, 90).Draw(t, "buffer"), Addr: addr, Length: length}
		if n := len(d.Devices); n > 0 && d.Protocol == "rdma" && rapid.Bool().Draw(t, "open") {
			b.RKeys = rapid.SliceOfN(rapid.Uint32(), n, n).Draw(t, "rkeys")
			b.LKeys = rapid.SliceOfN(rapid.Uint32(), n, n).Draw(t, "lkeys")
		}
		d.Buffers = append(d.Buffers, b)
	}
	blob := rapid.SliceOf(rapid.Byte())
	for range rapid.IntRange(0, 3).Draw(t, "transports") {
		e := metadata.TransportEndpoint{Name: "tcp", Blob: blob.Draw(t, "blob"), Incarnation: rapid.Uint64().Draw(t, "incarnation")}
		for range rapid.IntRange(0, 2).Draw(t, "regions") {
			addr, length := span()
			e.Regions = append(e.Regions, metadata.RegionKey{Addr: addr, Length: length, Key: blob.Draw(t, "key"),
				Location: rapid.SampledFrom([]string{"", "cpu:0"}).Draw(t, "where")})
		}
		d.Transports = append(d.Transports, e)
		d.Life = rapid.Uint64().Draw(t, "life")
	}
	return d
}

func TestDescriptorRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDescriptor(t)
		b, err := metadata.EncodeDescriptor(d)
		require.NoError(t, err)
		back, err := metadata.DecodeDescriptor(b)
		require.NoError(t, err)
		assert.Equal(t, d, back)

		// Upstream writes objects with sorted keys; so does a decode into maps.
		dec := json.NewDecoder(strings.NewReader(string(b)))
		dec.UseNumber()
		var any map[string]any
		require.NoError(t, dec.Decode(&any))
		var sorted strings.Builder
		enc := json.NewEncoder(&sorted)
		enc.SetEscapeHTML(false)
		require.NoError(t, enc.Encode(any))
		assert.Equal(t, strings.TrimSuffix(sorted.String(), "\n"), string(b))
	})
}

func FuzzDecodeDescriptor(f *testing.F) {
	f.Add([]byte(recorded(f, "%2Fram%2F")))
	for _, line := range goldenRDMA(f) {
		f.Add([]byte(line + "\n"))
	}
	f.Add([]byte(golden(f, "testdata/tcp.txt")[0]))
	f.Add([]byte(several))
	f.Add([]byte(`{"name":"n","protocol":"tcp","x_mooncake_go":{"transports":[{"blob":"AQ==","incarnation":18446744073709551615,"name":"tcp","regions":[{"addr":1,"key":"","length":2,"location":"cpu:0"}]}],"v":1}}`))
	f.Add([]byte(`{"protocol":["tcp"],"buffers":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := metadata.DecodeDescriptor(b)
		if err != nil {
			require.Equal(t, errs.DeserializeFail, errs.CodeOf(err))
			return
		}
		d, ok := all.For(all.Protocol)
		require.True(t, ok)
		again, err := metadata.EncodeDescriptor(d)
		if err != nil { // A peer may name devices that it has not; we may not.
			require.ErrorContains(t, err, "priority_matrix names")
			d.Matrix = nil
			again, err = metadata.EncodeDescriptor(d)
		}
		require.NoError(t, err)
		back, err := metadata.DecodeDescriptor(again)
		require.NoError(t, err)
		require.Equal(t, d, back)
	})
}
