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

func TestSettingsOfTokens(t *testing.T) {
	files := []string{"--security_ca=ca.pem", "--security_cert=c.pem", "--security_key=k.pem"}
	mtls := append([]string{"--security_mode=mtls"}, files...)
	good := append([]string{"--security_tokens=reader=system:serviceaccount:a:*,operator/team/b=c", "--security_token_issuer=https://i", "--security_token_audience=mooncake"}, mtls...)
	with := func(base []string, more ...string) []string { return append(append([]string{}, base...), more...) }
	for _, c := range []struct {
		args   []string
		reason string
	}{
		{good, ""},
		{with(good, "--security_token_keys=file:/etc/jwks.json", "--security_token_doors=admin,metadata,rest,health"), ""},
		{with(good, "--security_token_keys=https://i/keys", "--security_token_keys_ca=/ca", "--security_token_keys_token=/t", "--security_token_keys_every=10s"), ""},
		{with(good, "--security_mode=tls"), ""},
		{with(good, "--security_mode=off"), "the network would see tokens, as security.mode (off)"},
		{with(good, "--security_tokens=master/a=b"), "a token cannot make a master"},
		{with(good, "--security_tokens=reader/a=*"), "something must stand before it"},
		{with(good, "--security_tokens=reader/a=b*c"), "the end of a subject only"},
		{with(good, "--security_tokens=root=b"), "the roles are master, store"},
		{with(good, "--security_tokens=reader"), "an entry is ROLE=PATTERN"},
		{with(good, "--security_token_issuer="), "security.token_issuer ()"},
		{with(good, "--security_token_audience="), "security.token_audience ()"},
		{with(good, "--security_token_issuer=http://i"), "must begin with https://HOST"},
		{with(good, "--security_token_issuer=kubernetes", "--security_token_keys=file:/k"), ""},
		{with(good, "--security_token_keys=http://i/keys"), "must be file:PATH or https://HOST/PATH"},
		{with(good, "--security_token_keys=https://u:p@i/keys"), "must be file:PATH or https://HOST/PATH"},
		{with(good, "--security_token_keys=file:keys"), "an absolute path"},
		{with(good, "--security_token_keys_every=1s"), `--security_token_keys_every = "1s": must be from 10s to 24h`},
		{with(good, "--security_token_doors=rpc"), "must be one of admin, metadata, rest, health"},
		{with(mtls, "--security_token_audience=a"), "needs identities of tokens, as security.tokens ()"},
		{with(mtls, "--security_token_doors=admin"), "needs identities of tokens, as security.tokens ()"},
		{with(mtls, "--security_token_file=/t"), ""},
		{[]string{"--security_mode=mtls", "--security_ca=ca.pem", "--security_token_file=/t"}, ""},
		{[]string{"--security_token_file=/t"}, "the network would see the token"},
		{with(mtls, "--security_token_file=/t", "--security_plaintext=admin"), "the network would see the token"},
	} {
		for _, role := range []Role{RoleMaster, RoleStore, RoleClient} {
			_, err := load(t, role, c.args, nil, "")
			if c.reason == "" {
				require.NoError(t, err, c.args)
				continue
			}
			require.ErrorContains(t, err, c.reason, c.args)
		}
	}
	want := mustLoad(t, RoleMaster, append([]string{}, good...), nil, "").Config.Security
	require.Equal(t, []string{"reader=system:serviceaccount:a:*", "operator/team/b=c"}, want.Tokens)
	require.Equal(t, want, mustLoad(t, RoleMaster, mtls, []string{
		"MOONCAKE_SECURITY_TOKENS=reader=system:serviceaccount:a:*,operator/team/b=c", "MOONCAKE_SECURITY_TOKEN_ISSUER=https://i", "MOONCAKE_SECURITY_TOKEN_AUDIENCE=mooncake",
	}, "").Config.Security)
	require.Equal(t, want, mustLoad(t, RoleMaster, mtls, nil, `
security:
  tokens: ["reader=system:serviceaccount:a:*", operator/team/b=c]
  token_issuer: https://i
  token_audience: mooncake
`).Config.Security)
	for d, takes := range map[Door]bool{DoorAdmin: true, DoorMetadata: true, DoorREST: true, DoorHealth: true, DoorRPC: false, DoorLocal: false, DoorHandshake: false, DoorFollow: false} {
		require.Equal(t, takes, want.TakesTokens(d), d)
		require.Equal(t, takes, want.DemandsToken(d), d)
	}
	want.Plaintext = []string{"health"}
	require.False(t, want.TakesTokens(DoorHealth))
	want.Mode, want.TokenDoors = "tls", []string{"rest", "health"}
	require.True(t, want.TakesTokens(DoorAdmin))
	require.False(t, want.DemandsToken(DoorAdmin))
	require.True(t, want.DemandsToken(DoorREST))
	require.False(t, want.DemandsToken(DoorHealth))
}
