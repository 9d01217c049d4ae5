package assembly

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/topology"
	tcp "github.com/mooncake-go/mooncake/plugins/transport-tcp"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/security/securitytest"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// without is transport/tcp under another name and without the capability to protect what it moves.
func without(name string) plugin.Factory {
	f := tcp.Factory()
	m := f.Manifest()
	m.Name, m.Capabilities = name, nil
	return transport.Define(m, tcp.DefaultConfig, func(c *tcp.Config) (transport.Transport, error) { return f.New(c) })
}

// TestWhatMayMoveObjects: with a security mode a transport has the capability, or is named.
func TestWhatMayMoveObjects(t *testing.T) {
	a := securitytest.NewAuthority(t)
	files := a.Issue(t, securitytest.Certificate{Role: security.RoleStore, Name: "a"})
	for name, c := range map[string]struct {
		mode       string
		transport  string // several are separated by spaces
		plaintext  []string
		says, gets string
	}{
		"off":                       {mode: "off", transport: "old"},
		"capable":                   {mode: "mtls", transport: "tcp", gets: "mtls"},
		"capable, tls":              {mode: "tls", transport: "tcp", gets: "tls"},
		"plaintext asked for":       {mode: "mtls", transport: "tcp", plaintext: []string{"data"}},
		"without the capability":    {mode: "mtls", transport: "old", says: "the transport old does not protect what it moves"},
		"without it, tls":           {mode: "tls", transport: "old", says: "name data in security.plaintext"},
		"without it, another door":  {mode: "mtls", transport: "old", plaintext: []string{"rdma"}, says: "name data in security.plaintext"},
		"without it, and named":     {mode: "mtls", transport: "old", plaintext: []string{"data"}},
		"rdma":                      {mode: "mtls", transport: "rdma", says: "name rdma in security.plaintext"},
		"rdma, without a device":    {mode: "mtls", transport: "rdma tcp", gets: "mtls"},
		"rdma, named":               {mode: "mtls", transport: "rdma", plaintext: []string{"rdma"}, gets: "mtls"},
		"rdma where all of data is": {mode: "mtls", transport: "rdma", plaintext: []string{"data"}},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(c.transport, " ") {
				choice, err := topology.NewChooser(settings(t, nil).Store, slog.New(slog.DiscardHandler)).Choice()
				if require.NoError(t, err); len(choice.Devices) > 0 {
					t.Skip("the machine has an RDMA device")
				}
			}
			cfg := settings(t, func(cfg *config.Config) {
				cfg.Store.Transports = strings.Fields(c.transport)
				cfg.Security = config.Security{Mode: c.mode, CA: files.CA, Cert: files.Cert, Key: files.Key, Plaintext: c.plaintext}
			})
			var text bytes.Buffer
			log := slog.New(slog.NewTextHandler(&text, nil))
			d, err := doors.Open(cfg.Security, log)
			require.NoError(t, err)
			catalog, err := pluginhost.FromConfig(cfg, []plugin.Factory{tcp.Factory(), without("old"), without("rdma")}, log)
			require.NoError(t, err)
			host, err := memory.FromConfig(cfg.Store, log)
			require.NoError(t, err)
			e, err := New(cfg, ByRange, Deps{Catalog: catalog, Devices: topology.NewChooser(cfg.Store, log), Host: host, Doors: d, Log: log})
			if c.says != "" {
				require.ErrorContains(t, err, c.says)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.gets, string(e.security().Mode))
			assert.Equal(t, c.mode != "off" && len(c.plaintext) > 0 && c.plaintext[0] == "data", bytes.Contains(text.Bytes(), []byte("move objects in plaintext")))
		})
	}
}
