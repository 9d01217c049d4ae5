package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch/sandbox"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
)

func TestPluginSecurity(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // as folders of lock files are
	lock := filepath.Join(dir, "lock.yaml")
	require.NoError(t, trust.UpdateLock(t.Context(), lock, func(l *trust.Lock) error {
		return l.Set(quicID, trust.HostPlatform(), trust.Locked{Version: "1", SHA256: "0000000000000000000000000000000000000000000000000000000000000000"})
	}))
	key, err := trust.NewKey()
	require.NoError(t, err)
	_, err = trust.SignLock(t.Context(), lock, key, "")
	require.NoError(t, err)
	other, err := trust.NewKey()
	require.NoError(t, err)
	old := sandbox.Kernel{Landlock: 2, Seccomp: true}
	for _, c := range []struct {
		plugins config.Plugins
		mode    string
		kernel  sandbox.Kernel
		want    Status
		found   []string
	}{
		{config.Plugins{}, "off", old, OK, []string{"every plugin program runs", "have the rights of this user"}},
		{config.Plugins{Sandbox: "auto"}, "mtls", old, Warn, []string{"plugins.lock names no file", "incomplete sandbox: no new privileges, no capabilities, landlock 2"}},
		{config.Plugins{Sandbox: "require"}, "off", old, Fail, []string{"incomplete sandbox"}},
		{config.Plugins{Sandbox: "off", Trust: "off"}, "tls", old, Warn, []string{"every plugin program runs"}},
		{config.Plugins{Lock: lock, Sandbox: "auto"}, "mtls", machine(nil).Sandbox(), OK, []string{"1 locked plugin, without a signature", "landlock 7"}},
		{config.Plugins{Lock: lock, TrustedKeys: []string{key.Public()}}, "off", old, OK, []string{"1 locked plugin, signed by " + key.ID()}},
		{config.Plugins{Lock: lock, TrustedKeys: []string{other.Public()}}, "off", old, Fail, []string{"the lock file cannot be used"}},
		{config.Plugins{Lock: lock + ".none"}, "off", old, Fail, []string{"the lock file cannot be used"}},
		{config.Plugins{Lock: lock, Trust: "tofu"}, "off", old, OK, []string{"from their first use on"}},
	} {
		e := &exam{Machine: machine(nil), cfg: config.Config{Plugins: c.plugins, Security: config.Security{Mode: c.mode}}}
		e.Sandbox = func() sandbox.Kernel { return c.kernel }
		r := e.pluginSecurity(t.Context())
		assert.Equal(t, c.want, r.Status, "%+v", r)
		assert.Equal(t, c.want != OK, r.Do != "", "%+v", r)
		for _, part := range c.found {
			assert.Contains(t, r.Found, part)
		}
	}
}
