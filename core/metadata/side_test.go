package metadata_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func withSide(side []byte) []byte {
	return append(append([]byte(`{"name":"n","protocol":"tcp","x_mooncake_go":`), side...), '}')
}

// TestSideKey: the form that our own nodes of other releases read.
func TestSideKey(t *testing.T) {
	const side = `{"transports":[{"blob":"/wA=","incarnation":18446744073709551615,"name":"rdma","regions":[` +
		`{"addr":4096,"key":"AQ==","length":5,"location":"cuda:1"},{"addr":1,"key":"","length":18446744073709551614}]}],"v":1}`
	d, err := metadata.DecodeDescriptor(withSide([]byte(side)))
	require.NoError(t, err)
	assert.Equal(t, []metadata.TransportEndpoint{{Name: "rdma", Blob: []byte{255, 0}, Incarnation: 1<<64 - 1, Regions: []metadata.RegionKey{
		{Addr: 4096, Length: 5, Key: []byte{1}, Location: "cuda:1"}, {Addr: 1, Length: 1<<64 - 2, Key: []byte{}}}}}, d.Transports)
	back, err := metadata.EncodeDescriptor(d)
	require.NoError(t, err)
	var keys map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(back, &keys))
	assert.Equal(t, side, string(keys["x_mooncake_go"]))
}

func FuzzDecodeSideKey(f *testing.F) {
	for _, s := range []string{
		`{"transports":[{"blob":"AQ==","incarnation":18446744073709551615,"name":"tcp","regions":[{"addr":1,"key":"","length":2,"location":"cpu:0"}]}],"v":1}`,
		`{"v":1}`, `{"v":2,"transports":5}`, `null`, `{"v":1,"transports":[{"name":""}]}`, `{"v":1,"transports":[{"name":"a","regions":[{"addr":18446744073709551615,"length":2}]}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, side []byte) {
		d, err := metadata.DecodeDescriptor(withSide(side))
		if err != nil {
			require.Equal(t, errs.DeserializeFail, errs.CodeOf(err))
			return
		}
		again, err := metadata.EncodeDescriptor(d)
		require.NoError(t, err)
		back, err := metadata.DecodeDescriptor(again)
		require.NoError(t, err)
		require.Equal(t, d, back)
	})
}
