package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestSizesOfTheDictForm(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "1024": 1024, "1024B": 1024, "16k": 16 << 10, "16 KB": 16 << 10, "1.5gb": 3 << 29, "2M": 2 << 20, "4gB": 4 << 30, "1T": 1 << 40,
		"1 tb": 1 << 40, "2048.0": 2048, " 4096 ": 4096, "1e6": 1000000, "18446744073709551615": 1<<64 - 1,
	} {
		got, err := parseSize(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "gb", "50%", "-1", "-1gb", "1x", "1.5.2", "nan", "inf", "infinite", "0x10", "99999999TB", "1 2"} {
		_, err := parseSize(text)
		assert.Error(t, err, text)
	}
}

func given(more map[string]string) map[string]string {
	all := map[string]string{"local_hostname": "h", "metadata_server": "P2PHANDSHAKE"}
	for k, v := range more {
		all[k] = v
	}
	return all
}

func TestDefaultsOfTheDictForm(t *testing.T) {
	flags, warnings, err := arguments(given(map[string]string{"what": "is not known", "ipc_socket_path": "/x", "protocol": ""}), false)
	require.NoError(t, err)
	assert.Empty(t, warnings)
	assert.Equal(t, map[string]string{
		"local_hostname": "h", "metadata_server": "P2PHANDSHAKE", "global_segment_size": "16777216", "local_buffer_size": "16777216", "enable_http_server": "false",
		"enable_offload": "false",
	}, flags)
}

func TestNamesThatEnginesGiveTheDictForm(t *testing.T) {
	theirs := map[string]string{"device_name": "mlx5_0", "master_server_address": "m:1"}
	flags, warnings, err := arguments(given(theirs), false)
	require.NoError(t, err)
	assert.Empty(t, warnings)
	assert.Equal(t, []string{"mlx5_0", "m:1"}, []string{flags["device_names"], flags["master_server_address"]})
	theirs["rdma_devices"], theirs["master_server_addr"] = "mlx5_1", "m:2"
	flags, _, err = arguments(given(theirs), false)
	require.NoError(t, err)
	assert.Equal(t, []string{"mlx5_1", "m:2"}, []string{flags["device_names"], flags["master_server_address"]})
}

func TestArgumentsThatCannotBe(t *testing.T) {
	for key, value := range map[string]string{
		"local_hostname": "", "metadata_server": "", "global_segment_size": "1023", "local_buffer_size": "2TB",
	} {
		_, _, err := arguments(given(map[string]string{key: value}), false)
		assert.ErrorIs(t, err, errs.InvalidParams.Err(), key)
		assert.ErrorContains(t, err, key)
	}
	for _, port := range []string{"0", "65536", "x", "-1"} {
		_, _, err := arguments(given(map[string]string{"enable_client_http_server": "True", "client_http_port": port}), false)
		assert.ErrorIs(t, err, errs.InvalidParams.Err(), port)
		_, _, err = arguments(given(map[string]string{"enable_client_http_server": "False", "client_http_port": port}), false)
		assert.NoError(t, err, "without a server a port means nothing")
	}
}

func TestSSDOffload(t *testing.T) {
	flags, _, err := arguments(given(map[string]string{"enable_ssd_offload": "True", "ssd_offload_path": "/nvme"}), false)
	require.NoError(t, err)
	assert.Equal(t, "true", flags["enable_offload"])
	assert.Equal(t, "/nvme", flags["ssd_offload_path"])
	flags, _, err = arguments(given(map[string]string{"ssd_offload_path": ""}), false)
	require.NoError(t, err)
	assert.Equal(t, "false", flags["enable_offload"])
	assert.NotContains(t, flags, "ssd_offload_path", "that of the environment applies")
}

func TestThePositionalFormHasPlainNumbers(t *testing.T) {
	sizes := func(segment, buffer string) (map[string]string, error) {
		flags, _, err := arguments(given(map[string]string{"global_segment_size": segment, "local_buffer_size": buffer}), true)
		return flags, err
	}
	flags, err := sizes("1", "0")
	require.NoError(t, err)
	assert.Equal(t, "1", flags["global_segment_size"])
	for _, text := range []string{"4gb", "", "-1", "1.0"} {
		_, err := sizes(text, "0")
		assert.ErrorIs(t, err, errs.InvalidParams.Err(), text)
	}
}

func TestAFlagThatIsNoneIsOff(t *testing.T) {
	for text, want := range map[string]string{"True": "true", "1": "true", "on": "true", "False": "false", "": "false", "None": "false", "maybe": "false"} {
		flags, warnings, err := arguments(given(map[string]string{"enable_client_http_server": text}), false)
		require.NoError(t, err)
		assert.Equal(t, want, flags["enable_http_server"], text)
		assert.Equal(t, text == "maybe", len(warnings) == 1, text)
	}
}

func FuzzParseSize(f *testing.F) {
	for _, text := range []string{"4gb", "1.5 TB", "-1", "infinite", "50%", "1e400", "0x1p-2"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := parseSize(text)
		if err != nil && n != 0 {
			t.Fatalf("%q: %d and %v", text, n, err)
		}
	})
}

func TestReplicateConfigsThatAreRefused(t *testing.T) {
	ttl := uint64(1000)
	for name, r := range map[string]Replicate{
		"nof_replica_num": {ReplicaNum: 1, NoFReplicaNum: 1}, "dfs_replica_num": {ReplicaNum: 1, DFSReplicaNum: 2}, "replica_num": {},
		"replica_num is 4294967296": {ReplicaNum: 1 << 32}, "soft_pin_ttl_ms": {ReplicaNum: 1, SoftPinTTL: &ttl},
		"soft_pin_action": {ReplicaNum: 1, SoftPinAction: 3}, "data_type": {ReplicaNum: 1, DataType: 10}, "prefer_alloc_in_same_node": {ReplicaNum: 1, PreferNode: true},
		"group_ids": {ReplicaNum: 1, HasGroupIDs: true, GroupIDs: []string{"one"}},
	} {
		_, err := r.config(2, false)
		assert.ErrorIs(t, err, errs.InvalidParams.Err(), name)
		assert.ErrorContains(t, err, name)
	}
	disabled := Replicate{ReplicaNum: 1, SoftPinAction: 2, SoftPinTTL: &ttl}
	_, err := disabled.config(1, false)
	assert.ErrorContains(t, err, "soft_pin_ttl_ms")
	forever := ^uint64(0)
	fine := Replicate{ReplicaNum: 2, SoftPinAction: 1, SoftPinTTL: &forever, PreferNode: true, HasGroupIDs: true, GroupIDs: []string{"a", "b"}}
	cfg, err := fine.config(2, true)
	require.NoError(t, err)
	assert.Positive(t, *cfg.SoftPin.TTL)
	assert.True(t, cfg.SameNode)
}
