package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHighAvailability(t *testing.T) {
	l := mustLoad(t, RoleMaster, []string{"--enable_ha", "--etcd_endpoints", "a:2379;b:2379", "--cluster_id", "c"}, nil, "")
	require.True(t, l.Config.Master.EnableHA)
	require.Equal(t, "a:2379;b:2379", l.Config.Master.HABackend())
	l = mustLoad(t, RoleMaster, []string{"--enable_ha", "--etcd_endpoints=a:1", "--ha_backend_connstring=b:1"}, nil, "")
	require.Equal(t, "b:1", l.Config.Master.HABackend(), "as upstream")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--enable_ha"}, "master.ha_backend_connstring"},
		{[]string{"--enable_ha", "--etcd_endpoints=a:1", "--set", "master.rpc_port=0"}, "master.rpc_port"},
		{[]string{"--enable_ha", "--etcd_endpoints=a:1", "--ha_lease_ttl=1500ms"}, "whole seconds"},
		{[]string{"--enable_ha", "--etcd_endpoints=a:1", "--ha_backend_type=zookeeper"}, "must be one of etcd, redis, k8s"},
	} {
		_, err := load(t, RoleMaster, c.args, nil, "")
		require.True(t, IsUsage(err), c.args)
		require.ErrorContains(t, err, c.want)
	}
	mustLoad(t, RoleMaster, []string{"--ha_lease_ttl=1500ms"}, nil, "") // Nothing is checked that is not used.
}

func TestWhatLedgersCover(t *testing.T) {
	for _, flag := range []string{"enable_oplog", "enable_snapshot", "enable_snapshot_restore", "oplog_poll_interval_ms=5"} {
		l := mustLoad(t, RoleMaster, []string{"--" + flag}, nil, "")
		require.Len(t, l.Warnings, 1)
		require.Contains(t, l.Warnings[0].String(), "is not needed: the stores keep")
	}
}
