package kvevents

import (
	"log/slog"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
)

func TestEverySettingOfKVEventsArrives(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	got := FromConfig(config.Master{
		KVEventsBindEndpoint: "tcp://*:1", KVEventsBackendID: "b", KVEventsQueueCapacity: 2, KVEventsEmitLegacyCompat: true, KVEventsEmitObjectKey: true,
	}, quiet)
	require.Equal(t, Config{Endpoint: "tcp://*:1", BackendID: "b", QueueCapacity: 2, LegacyCompat: true, ObjectKey: true, Logger: quiet}, got)
	for i, v := 0, reflect.ValueOf(got); i < v.NumField(); i++ {
		require.False(t, v.Field(i).IsZero(), v.Type().Field(i).Name)
	}
}
