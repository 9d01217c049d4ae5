package config

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func loadService(t *testing.T, upstream bool, args, environ []string, file string) (*Loaded, error) {
	t.Helper()
	fs, rest, err := ParseArgs(RoleService, args)
	require.NoError(t, err)
	require.Empty(t, rest)
	o := Options{Role: RoleService, UpstreamDefaults: upstream, Flags: fs, Environ: environ}
	if file != "" {
		o.File = write(t, "store.json", file)
	}
	return Load(o)
}

const serviceFile = `{"local_hostname":"10.0.0.7","metadata_server":"P2PHANDSHAKE","master_server_address":"10.0.0.1:50051"}`

// The launch lines of upstream's store service.
func TestStoreServiceLaunchLines(t *testing.T) {
	for _, args := range [][]string{
		{"--port", "8088", "--max-wait-time", "90", "-D", "global_segment_size=1.5gb", "--define", "protocol=tcp"},
		{"--port=8088", "--max_wait_time=90s", "-Dglobal_segment_size=1.5 GB", "--define=protocol=TCP"},
		{"-port=8088", "-max-wait-time=90", "-D=global_segment_size=1610612736", "-define", "protocol=tcp"},
	} {
		l, err := loadService(t, true, args, nil, serviceFile)
		require.NoError(t, err, args)
		s := l.Config.Store
		require.Equal(t, 8088, s.RESTPort)
		require.Equal(t, 90*time.Second, s.MaxWaitTime)
		require.Equal(t, 3*GiB/2, s.GlobalSegmentSize)
		require.Equal(t, "tcp", s.Protocol)
		require.Empty(t, l.Warnings)
	}
}

// Its names bring its defaults; mooncake store has no service without a port.
func TestStoreServiceDefaults(t *testing.T) {
	l, err := loadService(t, true, nil, []string{"MOONCAKE_MASTER=10.0.0.1:50051"}, "")
	require.NoError(t, err)
	s := l.Config.Store
	require.Equal(t, 8080, s.RESTPort)
	require.Equal(t, "0.0.0.0", s.RESTHost)
	require.Equal(t, time.Minute, s.MaxWaitTime)
	require.Equal(t, Size(3355443200), s.GlobalSegmentSize)
	require.Equal(t, GiB, s.LocalBufferSize)
	require.Equal(t, "localhost", s.LocalHostname)
	require.Equal(t, "P2PHANDSHAKE", s.MetadataServer)
	o, _ := l.Origin("store.rest_port")
	require.Equal(t, "default of mooncake_store_service", o.String())

	l, err = loadService(t, false, nil, nil, "")
	require.NoError(t, err)
	require.Zero(t, l.Config.Store.RESTPort)
	require.Zero(t, mustLoad(t, RoleStore, []string{"--port=50052"}, nil, "").Config.Store.RESTPort, "of mooncake_client it is another port")
}

func TestStoreServiceDefines(t *testing.T) {
	l, err := loadService(t, true, []string{"-D", "tenant_id=a", "-D", "tenant_id=default", "-D", "local_hostnam=x", "-D", "what=1", "-D", "master_server_address=m:1"}, nil, serviceFile)
	require.NoError(t, err)
	require.Equal(t, "default", l.Config.Store.TenantID, "the last one counts")
	require.Equal(t, "m:1", l.Config.Store.MasterServerAddress, "over the file")
	o, _ := l.Origin("store.master_server_address")
	require.Equal(t, "flag --define master_server_address", o.String())
	require.Len(t, l.Warnings, 2)
	require.Contains(t, l.Warnings[0].String(), "did you mean local_hostname?")

	for arg, want := range map[string]string{
		"local_buffer_size=gb":       "--define local_buffer_size",
		"protocol":                   "must be key=value",
		"enable_ssd_offload=perhaps": "true or false",
		"client_http_port=70000":     "from 0 to 65535",
	} {
		_, err = loadService(t, true, []string{"-D", arg}, nil, serviceFile)
		require.True(t, IsUsage(err), arg)
		require.ErrorContains(t, err, want)
	}
	_, err = loadService(t, true, []string{"-D", "protocol=tcp", "--protocol=rdma"}, nil, serviceFile)
	require.ErrorContains(t, err, "was also given by")
}

// What its file must have, it must have, unless it comes from elsewhere.
func TestStoreServiceRequiredKeys(t *testing.T) {
	_, err := loadService(t, true, nil, nil, `{"protocol":"tcp"}`)
	for _, key := range required {
		require.ErrorContains(t, err, "Missing required config field: "+key)
	}
	_, err = loadService(t, true, []string{"-D", "local_hostname=h", "--metadata_server=P2PHANDSHAKE"}, []string{"MOONCAKE_MASTER=m:1"}, `{"protocol":"tcp"}`)
	require.NoError(t, err)
	_, err = loadService(t, true, nil, nil, "")
	require.ErrorContains(t, err, "MOONCAKE_MASTER")
	_, err = loadService(t, true, nil, []string{"MOONCAKE_CONFIG_PATH=" + write(t, "x.json", serviceFile)}, "")
	require.NoError(t, err)
	_, err = loadService(t, false, nil, nil, `{"protocol":"tcp"}`)
	require.NoError(t, err, "under our own name there are defaults")
	for _, key := range append([]string{"protocol"}, required...) {
		values := map[string]string{"protocol": "tcp", "local_hostname": "h", "metadata_server": "P2PHANDSHAKE", "master_server_address": "m:1"}
		values[key] = ""
		text, err := json.Marshal(values)
		require.NoError(t, err)
		_, err = loadService(t, true, nil, nil, string(text))
		require.True(t, IsUsage(err), "an empty %s", key)
		require.ErrorContains(t, err, key)
	}
}
