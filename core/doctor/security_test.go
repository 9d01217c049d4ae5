package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/security/securitytest"
)

func TestSecurityNamesEveryDoor(t *testing.T) {
	f := securitytest.NewAuthority(t).Issue(t, securitytest.Certificate{Role: security.RoleMaster, Name: "m1"})
	cfg := config.Config{Security: config.Security{Mode: "mtls", CA: f.CA, Cert: f.Cert, Key: f.Key}}
	cfg.Master.RPCPort, cfg.Master.MetricsPort = 50051, 9003
	e := &exam{cfg: cfg, role: config.RoleMaster}
	r := e.security(t.Context())
	assert.Equal(t, OK, r.Status)
	assert.Equal(t, "security.mode is mtls, as master/m1", r.Found)
	assert.Equal(t, []string{"rpc: port 50051, mtls", "admin: port 9003, mtls"}, r.Details)

	e.cfg.Security.Plaintext = []string{"admin"}
	r = e.security(t.Context())
	assert.Equal(t, Warn, r.Status)
	assert.Contains(t, r.Details, "admin: port 9003, plaintext")
	assert.Contains(t, r.Why, "who reaches admin")

	e.cfg.Security.Key = f.CA
	r = e.security(t.Context())
	assert.Equal(t, Fail, r.Status)
	require.Contains(t, r.Found, "belong together")

	e.cfg.Security = config.Security{}
	assert.Contains(t, e.security(t.Context()).Found, "security.mode is off")
}

// TestQUICUsesTheCertificatesOfTheProcess: with a security mode transport/quic needs none of its own.
func TestQUICUsesTheCertificatesOfTheProcess(t *testing.T) {
	e := &exam{role: config.RoleStore, cfg: config.Config{Security: config.Security{Mode: "mtls"}}}
	assert.Equal(t, OK, e.quicCerts(t.Context()).Status)
	e.cfg.Security.Plaintext = []string{"data"}
	assert.Equal(t, Fail, e.quicCerts(t.Context()).Status)
	e.cfg.Security = config.Security{}
	assert.Contains(t, e.quicCerts(t.Context()).Found, "ca is not set")
}
