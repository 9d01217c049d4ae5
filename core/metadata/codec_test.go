package metadata_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/internal/httpgolden"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorded returns a body that upstream's nodes stored.
func recorded(t testing.TB, part string) string {
	list, err := httpgolden.Read("testdata/descriptors.txt")
	require.NoError(t, err)
	for _, x := range list {
		if strings.Contains(x.Target, part) && x.Status == 200 {
			return x.Body
		}
	}
	t.Fatalf("nothing recorded for %s", part)
	return ""
}

func TestRecordedDescriptor(t *testing.T) {
	body := recorded(t, "%2Fram%2F")
	d, err := metadata.DecodeDescriptor([]byte(body))
	require.NoError(t, err)
	assert.Equal(t, &metadata.Descriptor{
		Name: "127.0.0.1:13172", Protocol: "tcp", TCPDataPort: 16196, TCPProtoVersion: 2, Timestamp: "2026-11-20 12:40:10.027378",
		Buffers: []metadata.Buffer{{Name: "127.0.0.1:13172", Addr: 140481820360704, Length: 67108864}},
	}, d)
	back, err := metadata.EncodeDescriptor(d)
	require.NoError(t, err)
	assert.Equal(t, body, string(back))
}

func TestRecordedAddress(t *testing.T) {
	body := recorded(t, "%2Frpc_meta%2F")
	a, err := metadata.DecodeAddress([]byte(body))
	require.NoError(t, err)
	assert.Equal(t, metadata.Address{Host: "127.0.0.1", Port: 16497}, a)
	back, err := metadata.EncodeAddress(a)
	require.NoError(t, err)
	assert.Equal(t, body, string(back))
}

func TestRecordedKeys(t *testing.T) {
	assert.Equal(t, "mooncake/ram/127.0.0.1:13172", metadata.Keys{}.Segment("127.0.0.1:13172"))
	assert.Equal(t, "mooncake/c1/rpc_meta/n", metadata.Keys{Cluster: "c1"}.RPCMeta("n"))
	assert.Equal(t, "mooncake/nvmeof/n", metadata.Keys{}.Segment("nvmeof/n"))
	assert.True(t, metadata.IsRPCMeta(metadata.Keys{}.RPCMeta("n")))
	assert.False(t, metadata.IsRPCMeta(metadata.Keys{}.Segment("n")))
}

func TestForeignDescriptors(t *testing.T) {
	for name, c := range map[string]struct {
		json    string
		buffers int
	}{
		"rdma with devices and null topology": {`{"name":"n","protocol":"rdma","devices":[{"name":"mlx5_0","lid":1,"gid":"00:11"}],"priority_matrix":null,
			"buffers":[{"name":"cpu:0","addr":18446744073709551614,"length":1,"rkey":[1],"lkey":[2]}]}`, 1},
		"tcp before versions":                {`{"name":"n","protocol":"tcp","buffers":[]}`, 0},
		"no buffers at all":                  {`{"protocol":"tcp"}`, 0},
		"cxl, whose buffers have no address": {`{"name":"n","protocol":"cxl","buffers":[{"name":"b","offset":0,"length":9}]}`, 0},
		"nvmeof":                             {`{"server_name":"n","protocol":"nvmeof","buffers":[{"file_path":"/f","length":1}]}`, 0},
		"side key of another version":        {`{"name":"n","protocol":"tcp","x_mooncake_go":{"v":2,"transports":"other"}}`, 0},
		"unknown keys":                       {`{"name":"n","protocol":"tcp","x":{"a":[1,2.5,"z"]},"rdma_server_name":"m"}`, 0},
	} {
		d, err := metadata.DecodeDescriptor([]byte(c.json))
		require.NoError(t, err, name)
		assert.Len(t, d.Buffers, c.buffers, name)
		assert.Equal(t, 1, d.TCPProtoVersion, name)
		assert.Empty(t, d.Transports, name)
	}
}

func TestBadDescriptors(t *testing.T) {
	buffer := `{"name":"n","protocol":"tcp","buffers":[{"name":%q,"addr":%s,"length":%s}]}`
	for name, text := range map[string]string{
		"empty":              ``,
		"no json":            `nope`,
		"null":               `null`,
		"list":               `[]`,
		"no protocol":        `{"name":"n"}`,
		"protocol is null":   `{"name":"n","protocol":null}`,
		"protocol is 1":      `{"name":"n","protocol":1}`,
		"port":               `{"name":"n","protocol":"tcp","tcp_data_port":65536}`,
		"negative port":      `{"name":"n","protocol":"tcp","tcp_data_port":-1}`,
		"empty buffer name":  fmt.Sprintf(buffer, "", "1", "1"),
		"address 0":          fmt.Sprintf(buffer, "b", "0", "1"),
		"length 0":           fmt.Sprintf(buffer, "b", "1", "0"),
		"past the end":       fmt.Sprintf(buffer, "b", "18446744073709551615", "2"),
		"65 bits":            fmt.Sprintf(buffer, "b", "18446744073709551616", "2"),
		"negative":           fmt.Sprintf(buffer, "b", "-1", "2"),
		"float":              fmt.Sprintf(buffer, "b", "1.5", "2"),
		"rdma, empty length": `{"name":"n","protocol":"rdma","buffers":[{"name":"cpu:0","addr":1,"length":0}]}`,
		"side key":           `{"name":"n","protocol":"tcp","x_mooncake_go":5}`,
		"side blob":          `{"name":"n","protocol":"tcp","x_mooncake_go":{"v":1,"transports":[{"name":"tcp","blob":"?"}]}}`,
		"side name":          `{"name":"n","protocol":"tcp","x_mooncake_go":{"v":1,"transports":[{"name":""}]}}`,
		"side region":        `{"name":"n","protocol":"tcp","x_mooncake_go":{"v":1,"transports":[{"name":"tcp","regions":[{"addr":1}]}]}}`,
		"long name":          `{"name":"` + strings.Repeat("n", 2000) + `","protocol":"tcp"}`,
		"too long":           `{"protocol":"tcp"}` + strings.Repeat(" ", metadata.MaxDescriptorSize),
	} {
		_, err := metadata.DecodeDescriptor([]byte(text))
		assert.Equal(t, errs.DeserializeFail, errs.CodeOf(err), name)
	}
	for name, d := range map[string]metadata.Descriptor{
		"no protocol": {Name: "n"},
		"not UTF-8":   {Name: "\xff", Protocol: "tcp"},
		"no range":    {Name: "n", Protocol: "tcp", Transports: []metadata.TransportEndpoint{{Name: "tcp", Regions: []metadata.RegionKey{{Addr: 1}}}}},
	} {
		_, err := metadata.EncodeDescriptor(&d)
		assert.Equal(t, errs.InvalidParams, errs.CodeOf(err), name)
	}
}

func TestBadAddresses(t *testing.T) {
	for _, text := range []string{``, `{}`, `{"ip_or_host_name":"h"}`, `{"rpc_port":1}`, `{"ip_or_host_name":"h","rpc_port":65536}`, `{"ip_or_host_name":"a b","rpc_port":1}`,
		`{"ip_or_host_name":"h","rpc_port":"1"}`} {
		_, err := metadata.DecodeAddress([]byte(text))
		assert.Equal(t, errs.DeserializeFail, errs.CodeOf(err), text)
	}
	_, err := metadata.EncodeAddress(metadata.Address{Host: "h"})
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
}

func FuzzDecodeAddress(f *testing.F) {
	f.Add([]byte(recorded(f, "%2Frpc_meta%2F")))
	f.Add([]byte(`{"ip_or_host_name":"fe80::1%eth0","rpc_port":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := metadata.DecodeAddress(b)
		if err != nil {
			return
		}
		again, err := metadata.EncodeAddress(a)
		require.NoError(t, err)
		back, err := metadata.DecodeAddress(again)
		require.NoError(t, err)
		require.Equal(t, a, back)
		host, port, err := metadata.ParseName(a.String())
		require.NoError(t, err)
		require.Equal(t, a, metadata.Address{Host: host, Port: port})
	})
}
