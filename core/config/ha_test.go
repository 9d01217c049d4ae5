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
		{[]string{"--enable_ha", "--etcd_endpoints=a:1", "--ha_backend_type=zookeeper"}, "must be one of etcd, redis, k8s, embedded"},
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

func TestEmbeddedMembers(t *testing.T) {
	args := func(members string, more ...string) []string {
		return append([]string{"--enable_ha", "--ha_backend_type=embedded", "--ha_members=" + members}, more...)
	}
	l := mustLoad(t, RoleMaster, args("m1=10.0.0.1,m2=host-2:12379,m3=[fd00::3]:12379:12380", "--ha_member=m2"), nil, "")
	members, err := l.Config.Master.Members()
	require.NoError(t, err)
	require.Equal(t, []HAMember{{"m1", "10.0.0.1", 2379, 2380}, {"m2", "host-2", 12379, 2380}, {"m3", "fd00::3", 12379, 12380}}, members)
	for _, c := range []struct {
		args []string
		want string
	}{
		{args(""), "names 0 masters, must be 3 to 7"},
		{args("a=1,b=2"), "names 2 masters"},
		{args("a=1,b=2,3"), `has "3"; must be name=host`},
		{args("a=1,b=2,c="), `has "c="`},
		{args("a=1,b=2,=3"), `has "=3"`},
		{args("a=1,b=2,c=3:0"), `"0" is no port`},
		{args("a=1,b=2,c=3:1:2:3"), "after the host come"},
		{args("a=1,b=2,c=[::1]2"), "after the host come"},
		{args("a=1,b=2,a=3"), "has a twice"},
		{args("a=1,b=2,c=1:9:2380"), "has 1:2380 twice"},
		{args("a=1,b=2,c=3:7:7"), "has 3:7 twice"},
		{args("a=1,b=2,c=3", "--ha_member=d"), "must be a name in master.ha_members"},
		{args("a=1,b=2,c=3", "--set", "store.ha_username=u"), "has no users"},
		{args("a=1,b=2,c=3", "--set", "store.ha_cert_file=/x"), "store.ha_ca_file"},
	} {
		_, err := load(t, RoleMaster, c.args, nil, "")
		require.True(t, IsUsage(err), c.args)
		require.ErrorContains(t, err, c.want)
	}
}
