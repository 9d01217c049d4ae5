package doctor

import (
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/certs"
	"github.com/mooncake-go/mooncake/core/config"
)

// quicMachine is a machine with what transport/quic needs, and the request to look at it.
func quicMachine(t *testing.T) (fstest.MapFS, Request) {
	now := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	ca, err := certs.NewAuthority("test", 10000*time.Hour, now.Add(-time.Hour))
	require.NoError(t, err)
	node, err := ca.Issue([]string{"10.0.0.1"}, 1000*time.Hour, now)
	require.NoError(t, err)
	caPEM, _, err := ca.PEM()
	require.NoError(t, err)
	cert, key, err := node.PEM()
	require.NoError(t, err)
	root := tree(t, "vm")
	root["proc/sys/kernel/osrelease"] = file("6.1.0")
	root["proc/sys/net/core/rmem_max"], root["proc/sys/net/core/wmem_max"] = file("8388608\n"), file("8388608\n")
	root["sys/class/net/eth7/mtu"] = file("1500\n")
	root["pki/ca.pem"], root["pki/n.pem"], root["pki/n-key.pem"] = file(string(caPEM)), file(string(cert)), file(string(key))
	r := settings(t, config.RoleStore, "STORE_PROTOCOL=quic")
	r.Config.Plugins.Transport = map[string]config.Plugin{"quic": {Config: map[string]any{"ca": "/pki/ca.pem", "cert": "/pki/n.pem", "key": "/pki/n-key.pem"}}}
	return root, r
}

func TestQUIC(t *testing.T) {
	other, err := certs.NewAuthority("other", 1000*time.Hour, time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
	require.NoError(t, err)
	foreign, _, err := other.PEM()
	require.NoError(t, err)
	set := func(name string, v any) func(fstest.MapFS, *Request, *Machine) {
		return func(_ fstest.MapFS, r *Request, _ *Machine) { r.Config.Plugins.Transport["quic"].Config[name] = v }
	}
	write := func(name, text string) func(fstest.MapFS, *Request, *Machine) {
		return func(root fstest.MapFS, _ *Request, _ *Machine) { root[name] = file(text) }
	}
	at := func(days int) func(fstest.MapFS, *Request, *Machine) {
		return func(_ fstest.MapFS, _ *Request, m *Machine) {
			m.Clock = func() (Clock, error) { return Clock{Now: time.Date(2026, 7, 1+days, 0, 0, 0, 0, time.UTC)}, nil }
		}
	}
	const network, certificates = "quic network", "quic certificates"
	for name, c := range map[string]struct {
		change func(fstest.MapFS, *Request, *Machine)
		check  string
		status Status
		says   string
	}{
		"all is well":      {func(fstest.MapFS, *Request, *Machine) {}, network, OK, "8.0 MiB"},
		"good certificate": {func(fstest.MapFS, *Request, *Machine) {}, certificates, OK, "for 10.0.0.1, ends 2026-08-11"},
		"small buffers":    {write("proc/sys/net/core/rmem_max", "212992"), network, Warn, "sysctl -w net.core.rmem_max=8388608 net.core.wmem_max=8388608"},
		"small by choice":  {set("socket_buffer", int64(1<<20)), network, OK, "1.0 MiB asked for"},
		"old kernel":       {write("proc/sys/kernel/osrelease", "4.19.0"), network, Warn, "system call of its own"},
		"small packets":    {write("sys/class/net/eth7/mtu", "576"), network, Warn, "eth7"},
		"no proc":          {func(root fstest.MapFS, _ *Request, _ *Machine) { delete(root, "proc/sys/net/core/rmem_max") }, network, Warn, "mount /proc"},
		"not set":          {set("key", ""), certificates, Fail, "mooncake certs init"},
		"missing":          {set("cert", "/pki/no.pem"), certificates, Fail, "/pki/no.pem cannot be read"},
		"no key":           {set("key", "/pki/no.pem"), certificates, Fail, "/pki/no.pem is not there"},
		"not PEM":          {write("pki/ca.pem", "x"), certificates, Fail, "no certificate in PEM"},
		"foreign":          {write("pki/ca.pem", string(foreign)), certificates, Fail, "peers will refuse it"},
		"ends soon":        {at(38), certificates, Warn, "it ends in"},
		"has ended":        {at(50), certificates, Fail, "certs renew"},
		"not begun":        {at(-1), certificates, Fail, "peers will refuse it"},
		"other host":       {func(_ fstest.MapFS, r *Request, _ *Machine) { r.Config.Store.AdvertiseHost = "10.0.0.2" }, certificates, Warn, "not for 10.0.0.2"},
		"insecure":         {set("insecure_dev", true), certificates, Warn, "forge an endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			root, r := quicMachine(t)
			m := machine(root)
			c.change(root, &r, &m)
			got := find(t, Run(t.Context(), m, r), c.check)
			require.Equal(t, c.status, got.Status, "%+v", got)
			require.Contains(t, got.Found+" "+got.Why+" "+got.Do, c.says)
		})
	}
	for _, x := range Run(t.Context(), machine(tree(t, "vm")), settings(t, config.RoleStore)).Results {
		require.NotContains(t, x.Check, "quic", "nobody asked")
	}
}
