package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKVEventsNeedAnEndpointAndAName(t *testing.T) {
	const at, name = "--kv_events_bind_endpoint=tcp://*:5557", "--kv_events_backend_id=pool"
	for _, c := range []struct {
		args    []string
		missing []string
	}{
		{[]string{"--enable_kv_events", at, name}, nil},
		{[]string{"--enable_kv_events", "--kv_events_bind_endpoint=ipc:///run/events", name}, nil},
		{[]string{"--noenable_kv_events"}, nil},
		{[]string{at}, nil},
		{[]string{"--enable_kv_events"}, []string{"master.kv_events_bind_endpoint", "master.kv_events_backend_id"}},
		{[]string{"--enable_kv_events", at}, []string{"master.kv_events_backend_id"}},
		{[]string{"--enable_kv_events", name}, []string{"master.kv_events_bind_endpoint"}},
		{[]string{"--enable_kv_events", name, "--kv_events_bind_endpoint=5557"}, []string{"master.kv_events_bind_endpoint (5557)"}},
	} {
		l, err := load(t, RoleMaster, c.args, nil, "")
		if len(c.missing) == 0 {
			require.NoError(t, err, c.args)
			require.Empty(t, l.Warnings, c.args)
			require.Equal(t, c.args[0] == "--enable_kv_events", l.Config.Master.EnableKVEvents)
		}
		for _, m := range c.missing {
			require.ErrorContains(t, err, m, c.args)
		}
	}
	// From the environment and a file as well, and what is deprecated is accepted.
	l := mustLoad(t, RoleMaster, []string{name}, []string{"MOONCAKE_MASTER_ENABLE_KV_EVENTS=true"},
		"master: {kv_events_bind_endpoint: 'tcp://[::1]:0', kv_events_queue_capacity: 0}\n")
	require.True(t, l.Config.Master.EnableKVEvents)
	require.Equal(t, "tcp://[::1]:0", l.Config.Master.KVEventsBindEndpoint)
	require.Zero(t, l.Config.Master.KVEventsQueueCapacity)
	l = mustLoad(t, RoleMaster, []string{"--kv_events_model_name=llama"}, nil, "")
	require.Len(t, l.Warnings, 1)
	require.Contains(t, l.Warnings[0].String(), "upstream ignores")
}
