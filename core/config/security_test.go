package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecurityNeedsItsFiles(t *testing.T) {
	files := []string{"--security_ca=ca.pem", "--security_cert=c.pem", "--security_key=k.pem"}
	with := func(more ...string) []string { return append(more, files...) }
	for _, c := range []struct {
		args   []string
		reason string
	}{
		{[]string{"--security_mode=off"}, ""},
		{[]string{"--security_seal=aead", "--security_seal_keys=file:/etc/seal.json"}, ""},
		{[]string{"--security_seal=mac", "--security_seal_keys=vault:https://v:8200/transit/pool-{tenant}", "--security_seal_vault_token=/run/token"}, ""},
		{[]string{"--security_seal=mac"}, "security.seal_keys ()"},
		{[]string{"--security_seal=yes", "--security_seal_keys=file:/k"}, "must be one of none, mac, aead"},
		{[]string{"--security_seal=mac", "--security_seal_keys=/etc/seal.json"}, "it begins with neither file: nor vault:"},
		{[]string{"--security_seal_keys=vault:http://v:8200/transit/pool"}, "must begin with https://"},
		{[]string{"--security_seal=mac", "--security_seal_keys=vault:https://v/transit/pool"}, "security.seal_vault_token ()"},
		{with("--security_mode=mtls"), ""},
		{with("--security_mode=mtls", "--security_plaintext=health,kv-events", "--security_allow=store=*.stores.example.org"), ""},
		{[]string{"--security_mode=tls", "--security_ca=ca.pem"}, ""}, // a client
		{[]string{"--security_mode=tls"}, "security.ca ()"},
		{[]string{"--security_mode=mtls", "--security_ca=ca.pem"}, "security.cert ()"},
		{[]string{"--security_mode=tls", "--security_ca=ca.pem", "--security_cert=c.pem"}, "security.key ()"},
		{[]string{"--security_mode=mutual"}, "must be one of off, tls, mtls"},
		{with("--security_mode=mtls", "--security_plaintext=http"), "must be one of rpc, follow, admin"},
		{with("--security_mode=mtls", "--security_allow=root=a"), "the roles are master, store"},
	} {
		for _, role := range []Role{RoleMaster, RoleMetadata, RoleStore, RoleService, RoleClient} {
			l, err := load(t, role, c.args, nil, "")
			if c.reason == "" {
				require.NoError(t, err, c.args)
				require.Empty(t, l.Warnings, c.args)
				continue
			}
			require.ErrorContains(t, err, c.reason, c.args)
		}
	}
	s := mustLoad(t, RoleClient, nil, []string{
		"MOONCAKE_SECURITY_MODE=mtls", "MOONCAKE_SECURITY_CA=a", "MOONCAKE_SECURITY_CERT=b", "MOONCAKE_SECURITY_KEY=c", "MOONCAKE_SECURITY_PLAINTEXT=health",
	}, "").Config.Security
	require.True(t, s.On())
	require.True(t, s.Plain(DoorHealth))
	require.False(t, s.Plain(DoorRPC))
	require.True(t, Security{}.Plain(DoorRPC))
}
