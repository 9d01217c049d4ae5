package settings_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/bindings/settings"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func load(env []string, given map[string]string) (*settings.Result, string, error) {
	var log bytes.Buffer
	r, err := settings.Load(settings.Source{Environ: env, Builtins: builtin.Plugins(), Log: &log}, given)
	return r, log.String(), err
}

func TestWhatTheProgramGivesComesBeforeTheEnvironment(t *testing.T) {
	r, log, err := load([]string{
		"MOONCAKE_STORE_LOCAL_HOSTNAME=ours", "MC_RPC_TIMEOUT_MS=1234", "MOONCAKE_MASTER=elsewhere:1", "MOONCAKE_GLOBAL_SEGMENT_SIZE=no size",
		"MOONCAKE_CONFIG_PATH=/does/not/exist.json", "MOONCAKE_DEVICE={\"0\": \"mlx5_0\"}", "MOONCAKE_OFFLOAD_ENABLED=true",
		"MOONCAKE_OFFLOAD_FILE_STORAGE_PATH=/nvme",
	}, map[string]string{"local_hostname": "given", "protocol": "rdma"})
	require.NoError(t, err)
	s := r.Config.Store
	assert.Equal(t, "given", s.LocalHostname)
	assert.EqualValues(t, 1234, s.RPCTimeout.Milliseconds())
	assert.Equal(t, "127.0.0.1:50051", s.MasterServerAddress, "only the program gives the master")
	assert.Empty(t, s.DeviceNames)
	assert.False(t, s.EnableOffload)
	assert.Equal(t, []string{"/nvme"}, s.SSDOffloadPath, "it has an effect once the program turns offloading on")
	assert.Equal(t, []string{"shm", "rdma", "tcp"}, s.Transports)
	assert.Empty(t, log)
}

func TestForceTCPDecides(t *testing.T) {
	for value, want := range map[string][]string{"1": {"tcp"}, "0": {"tcp"}, "": {"shm", "rdma", "tcp"}} {
		r, _, err := load([]string{"MC_FORCE_TCP=" + value}, map[string]string{"protocol": "rdma"})
		require.NoError(t, err)
		assert.Equal(t, want, r.Config.Store.Transports, "MC_FORCE_TCP=%q", value)
	}
}

func TestALibraryIsQuietUnlessAsked(t *testing.T) {
	for env, want := range map[string][]string{"A=b": {"warning"}, "MC_LOG_LEVEL=INFO": {"info", "warning"}, "MC_LOG_LEVEL=ERROR": nil} {
		var log bytes.Buffer
		r, err := settings.Load(settings.Source{Environ: []string{env}, Builtins: builtin.Plugins(), Log: &log}, nil)
		require.NoError(t, err)
		r.Log.Info("of level info")
		r.Log.Warn("of level warning")
		for _, level := range []string{"info", "warning"} {
			assert.Equal(t, slices.Contains(want, level), strings.Contains(log.String(), "of level "+level), "%s: %s", env, level)
		}
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	_, _, err := load([]string{"MOONCAKE_STORE_RPC_TIMEOUT=soon"}, nil)
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
	assert.ErrorContains(t, err, "MOONCAKE_STORE_RPC_TIMEOUT")
	_, _, err = load(nil, map[string]string{"tenant_id": "x\x01"})
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
	_, _, err = load(nil, map[string]string{"no_such": "x"})
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
	_, log, err := load([]string{"MC_NO_SUCH_THING=1"}, nil)
	require.NoError(t, err)
	assert.Contains(t, log, "MC_NO_SUCH_THING")
}
