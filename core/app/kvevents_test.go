package app

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/master/kvevents"
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestEverySettingOfKVEventsArrives(t *testing.T) {
	got := kvEventsConfig(config.Master{
		KVEventsBindEndpoint: "tcp://*:1", KVEventsBackendID: "b", KVEventsQueueCapacity: 2, KVEventsEmitLegacyCompat: true, KVEventsEmitObjectKey: true,
	}, quiet)
	require.Equal(t, kvevents.Config{Endpoint: "tcp://*:1", BackendID: "b", QueueCapacity: 2, LegacyCompat: true, ObjectKey: true, Logger: quiet}, got)
	for i, v := 0, reflect.ValueOf(got); i < v.NumField(); i++ {
		require.False(t, v.Field(i).IsZero(), v.Type().Field(i).Name)
	}
}

func TestKVEventsWithAnEndpointThatIsNone(t *testing.T) {
	role := func(at string) (*masterRole, error) {
		cfg := settings(t, func(c *config.Config) {
			c.Master.Evictor = "lru"
			c.Master.EnableKVEvents, c.Master.KVEventsBindEndpoint, c.Master.KVEventsBackendID = true, at, "b"
		})
		return newMaster(cfg, []plugin.Factory{arena.Factory(), lru.Factory()}, quiet)
	}
	_, err := role("tcp://nowhere")
	require.ErrorContains(t, err, "master.kv_events_bind_endpoint")
	m, err := role("tcp://127.0.0.1:0")
	require.NoError(t, err)
	require.True(t, m.service.KVEvents().Enabled)
}
