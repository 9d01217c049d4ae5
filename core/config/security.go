package config

import (
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/tokens"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// Security is how the processes of a pool prove who they are, and what each demands of its peers.
type Security struct {
	Mode      string        `koanf:"mode" default:"off" enum:"off|tls|mtls" doc:"off: plaintext, whoever reaches a port reads and writes all objects; tls: doors take TLS 1.3 only, and clients verify whom they reach; mtls: also clients show certificates, which carry an identity. The same in all processes of a pool"`
	CA        string        `koanf:"ca" default:"" doc:"PEM file with the certificates of the authorities that sign those of the pool; files are read again when they change"`
	Cert      string        `koanf:"cert" default:"" doc:"PEM file with the certificate of this process, followed by those between it and the authority"`
	Key       string        `koanf:"key" default:"" doc:"PEM file with the key of cert"`
	Allow     []string      `koanf:"allow" default:"" doc:"identities of certificates that carry none: ROLE=PATTERN, ROLE/NAME=PATTERN or ROLE/TENANT/NAME=PATTERN, where ROLE is master, store, client, operator or reader, and PATTERN dns:NAME, dns:*.DOMAIN, uri:URI, uri:BEGINNING* or subject:DN with / between its parts"`
	Audit     string        `koanf:"audit" default:"log" doc:"where the records of administrative changes and refused calls go: log, the log of the process; off; or the path of a file, to which JSON lines are appended. The file may be moved away at any time"`
	LookEvery time.Duration `koanf:"look_every" default:"10s" range:"100ms..1h" doc:"how often the files are looked at: changed ones count for new connections, and existing ones give way to them"`
	Plaintext []string      `koanf:"plaintext" default:"" doc:"doors that stay plaintext although mode is not off, in this process and where it connects to others: rpc, follow, admin, metadata, rest, local, offload, health, handshake, data, rdma, kv-events, etcd"`

	Tokens         []string      `koanf:"tokens" default:"" doc:"identities of the bearer tokens that HTTP doors take, by their subjects: ROLE=SUBJECT, ROLE/NAME=SUBJECT or ROLE/TENANT/NAME=SUBJECT, where ROLE is store, client, operator or reader, and a SUBJECT that ends with * stands for all that begin so, such as reader/prometheus=system:serviceaccount:monitoring:prometheus. Empty for no tokens. Needs mode tls or mtls"`
	TokenIssuer    string        `koanf:"token_issuer" default:"" doc:"issuer (iss) of the tokens"`
	TokenAudience  string        `koanf:"token_audience" default:"" doc:"audience (aud) that a token must be for, such as mooncake"`
	TokenKeys      string        `koanf:"token_keys" default:"" doc:"where the keys of the issuer are, as a JWKS: file:PATH, which is read again when it changes; an https:// URL; or empty for what the OpenID configuration of token_issuer names"`
	TokenKeysCA    string        `koanf:"token_keys_ca" default:"" doc:"PEM file with the authorities that sign the certificate of the server of token_keys; empty for those of the system"`
	TokenKeysToken string        `koanf:"token_keys_token" default:"" doc:"file with a bearer token that is shown to the server of token_keys, such as the API server of Kubernetes; read for each request. Empty for none"`
	TokenKeysEvery time.Duration `koanf:"token_keys_every" default:"5m" range:"10s..24h" doc:"how often the keys of a URL are fetched; a token with an unknown key has them fetched at once, at most every 10 s"`
	TokenDoors     []string      `koanf:"token_doors" default:"" doc:"HTTP doors that also demand a token with mode tls: admin, metadata, rest, health. With mtls each HTTP door demands a certificate or a token"`
	TokenFile      string        `koanf:"token_file" default:"" doc:"file with the bearer token that commands show to the admin port of a master in place of a certificate, and masters to each other with mode tls; read for each request, so that it may be replaced at any time"`

	Seal           string        `koanf:"seal" default:"none" enum:"none|mac|aead" doc:"how clients of this process seal the objects that they put: mac, so that neither nodes nor the network can forge them; aead, so that they cannot read them either. With either a client reads sealed objects only. The same in all clients of a tenant; independent of mode"`
	SealKeys       string        `koanf:"seal_keys" default:"" doc:"where the keys of seal are: file:PATH ('mooncake seal new' makes one), or vault:https://HOST:PORT/MOUNT/NAME, a key of the secrets engine transit of a Vault server, where {tenant} in NAME stands for the tenant"`
	SealVaultToken string        `koanf:"seal_vault_token" default:"" doc:"file with the token for the Vault server of seal_keys; read for each request"`
	SealVaultCA    string        `koanf:"seal_vault_ca" default:"" doc:"PEM file with the authorities that sign the certificate of the Vault server; empty for those of the system"`
	SealPeriod     time.Duration `koanf:"seal_period" default:"24h" range:"1s..8760h" doc:"how long a client seals with a data key of the Vault server before it asks for another"`
}

// Door names what a process listens for.
type Door string

// The doors.
const (
	DoorRPC       Door = "rpc"       // calls of the pool's processes at a master
	DoorFollow    Door = "follow"    // what nodes tell a master that does not lead
	DoorAdmin     Door = "admin"     // the admin port of a master
	DoorMetadata  Door = "metadata"  // the metadata service
	DoorREST      Door = "rest"      // the REST service of a store
	DoorLocal     Door = "local"     // the status port of a served client
	DoorOffload   Door = "offload"   // reads of storage tiers
	DoorHealth    Door = "health"    // health and metrics of a node
	DoorHandshake Door = "handshake" // descriptors and notifications between transfer engines
	DoorData      Door = "data"      // the bytes of objects, over transports
	DoorRDMA      Door = "rdma"      // the bytes of objects over RDMA alone, which trusts its fabric
	DoorKVEvents  Door = "kv-events" // KV events over ZMTP
	DoorEtcd      Door = "etcd"      // an etcd or another service that elects the leader
)

// TokenDoors returns the doors at which a bearer token may say who calls: those of HTTP.
func TokenDoors() []Door { return []Door{DoorAdmin, DoorMetadata, DoorREST, DoorHealth} }

// AllDoors returns every door.
func AllDoors() []Door {
	return []Door{
		DoorRPC, DoorFollow, DoorAdmin, DoorMetadata, DoorREST, DoorLocal, DoorOffload, DoorHealth, DoorHandshake, DoorData, DoorRDMA, DoorKVEvents, DoorEtcd,
	}
}

// On reports whether the mode is not off.
func (s Security) On() bool { return s.Mode != "" && security.Mode(s.Mode) != security.ModeOff }

// Identities reports whether the client ids of the pool begin with the identities of their processes.
func (s Security) Identities() bool {
	return security.Mode(s.Mode) == security.ModeMTLS && !s.Plain(DoorRPC)
}

// Plain reports whether a door is plaintext.
func (s Security) Plain(d Door) bool { return !s.On() || slices.Contains(s.Plaintext, string(d)) }

// Seals reports whether clients seal what they put.
func (s Security) Seals() bool { return s.Seal == "mac" || s.Seal == "aead" }

// TakesTokens reports whether a bearer token may say who calls at a door.
func (s Security) TakesTokens(d Door) bool {
	return len(s.Tokens) > 0 && !s.Plain(d) && slices.Contains(TokenDoors(), d)
}

// DemandsToken reports whether a door that takes tokens refuses a call with neither a certificate nor a token.
func (s Security) DemandsToken(d Door) bool {
	return s.TakesTokens(d) && (security.Mode(s.Mode) == security.ModeMTLS || slices.Contains(s.TokenDoors, string(d)))
}

// TokenSettings returns what a tokens.Verifier is opened with.
func (s Security) TokenSettings() tokens.Settings {
	return tokens.Settings{
		Subjects: s.Tokens, Issuer: s.TokenIssuer, Audience: s.TokenAudience, Keys: s.TokenKeys, CAFile: s.TokenKeysCA, TokenFile: s.TokenKeysToken,
		LookEvery: s.LookEvery, FetchEvery: s.TokenKeysEvery,
	}
}

// Grants reports whether nodes serve only what the master allowed: with mtls, where the master and the nodes know who calls, and
// the keys of grants travel encrypted.
func (s Security) Grants() bool {
	return security.Mode(s.Mode) == security.ModeMTLS &&
		!slices.ContainsFunc([]Door{DoorRPC, DoorFollow, DoorOffload, DoorData}, s.Plain)
}

// Settings returns what a security.Keeper is opened with.
func (s Security) Settings() security.Settings {
	return security.Settings{
		Mode: security.Mode(s.Mode), Allow: s.Allow, Every: s.LookEvery,
		Files: security.Files{CA: s.CA, Cert: s.Cert, Key: s.Key, Of: "security"},
	}
}
