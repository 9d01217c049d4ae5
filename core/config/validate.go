package config

import (
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/config/internal/value"
	"github.com/mooncake-go/mooncake/core/internal/tokens"
	"github.com/mooncake-go/mooncake/core/sealkeys"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// check refuses settings that are fine alone and cannot work together.
func (l *loader) check(c Config) {
	m, s := c.Master, c.Store
	l.checkService()
	if m.PutStartReleaseTimeout <= m.PutStartDiscardTimeout {
		l.between(pair{"master.put_start_release_timeout", duration(m.PutStartReleaseTimeout)}, "must be longer than",
			pair{"master.put_start_discard_timeout", duration(m.PutStartDiscardTimeout)}, "must be shorter than")
	}
	if m.SoftPinTTL > m.MaxSoftPinTTL {
		l.between(pair{"master.soft_pin_ttl", duration(m.SoftPinTTL)}, "must be at most",
			pair{"master.max_soft_pin_ttl", duration(m.MaxSoftPinTTL)}, "must be at least")
	}
	l.checkKVEvents(m)
	l.checkHA(c)
	l.checkPorts(m)
	l.checkAutoPorts(s)
	if s.MaxInflightBytes < s.SliceSize {
		l.between(pair{"store.max_inflight_bytes", s.MaxInflightBytes.String()}, "must be at least",
			pair{"store.slice_size", s.SliceSize.String()}, "must be at most")
	}
	if err := checkMetadataServer(s.MetadataServer); err != nil && l.readsMetadataServer(m) {
		l.clash("store.metadata_server", s.MetadataServer, err.Error())
	}
	if s.NUMAStrict && s.NUMANode < 0 {
		l.clash("store.numa_strict", "true", "needs a store.numa_node, the node to take memory of only")
	}
	if s.LocalHotCacheSize > 0 && !s.Checksum {
		l.between(pair{"store.local_hot_cache_size", s.LocalHotCacheSize.String()}, "must be 0 without", pair{"store.checksum", "false"}, "must be true with")
	}
	if strings.TrimSpace(s.LocalHostname) == "" {
		l.clash("store.local_hostname", s.LocalHostname, "must not be empty")
	}
	if id := s.MetadataClusterID; id != "" && !clusterRE.MatchString(id) {
		l.clash("store.metadata_cluster_id", id, "must be empty or 1 to 128 letters, digits and _ . -")
	}
	l.checkTrust(c.Plugins)
	l.checkSecurity(c.Security)
	if c.Security.Seals() && !c.Store.Checksum {
		l.between(pair{"security.seal", c.Security.Seal}, "needs", pair{"store.checksum", "false"}, "must be true with")
	}
	if len(s.Transports) == 0 {
		l.clash("store.transports", "", "must name at least one transport plugin")
	}
	for _, f := range s.RESTFiles {
		if !strings.HasPrefix(f, "/dev/shm/") && !strings.HasPrefix(f, "/dev/hugepages/") {
			l.clash("store.rest_files", f, "must begin with /dev/shm/ or /dev/hugepages/")
		}
	}
	seen := map[string]bool{}
	for _, t := range s.Transports {
		if _, err := pluginName(t); err != nil {
			l.clash("store.transports", t, err.Error())
		} else if seen[t] {
			l.clash("store.transports", t, "is listed twice")
		}
		seen[t] = true
	}
}

func duration(d time.Duration) string { return value.FormatDuration(d) }

// checkKVEvents refuses events that could not be published.
func (l *loader) checkKVEvents(m Master) {
	if !m.EnableKVEvents {
		return
	}
	if at := m.KVEventsBindEndpoint; !strings.HasPrefix(at, "tcp://") && !strings.HasPrefix(at, "ipc://") {
		l.between(pair{"master.enable_kv_events", "true"}, "needs tcp://host:port or ipc:///path as", pair{"master.kv_events_bind_endpoint", at}, "must be tcp://host:port or ipc:///path with")
	}
	if m.KVEventsBackendID == "" {
		l.between(pair{"master.enable_kv_events", "true"}, "needs a name of this pool as", pair{"master.kv_events_backend_id", ""}, "must not be empty with")
	}
}

// checkHA refuses an election that could not take place.
func (l *loader) checkHA(c Config) {
	m := c.Master
	if m.Cells > 1 {
		switch {
		case !m.EnableHA:
			l.between(pair{"master.cells", strconv.Itoa(m.Cells)}, "needs", pair{"master.enable_ha", "false"}, "must be true with")
		case m.HABackendType != "etcd" && m.HABackendType != HAEmbedded:
			l.between(pair{"master.cells", strconv.Itoa(m.Cells)}, "needs etcd, not", pair{"master.ha_backend_type", m.HABackendType}, "must be etcd or embedded with")
		case m.CellsPort+m.Cells > 65536:
			l.between(pair{"master.cells_port", strconv.Itoa(m.CellsPort)}, "leaves too few ports for", pair{"master.cells", strconv.Itoa(m.Cells)}, "must fit in the ports from")
		}
	}
	if m.EnableMultiTenants && m.TenantQuotaConnectorType == QuotasInEtcd && m.QuotaEtcd() == "" && !(m.EnableHA && m.HABackendType == HAEmbedded) {
		l.between(pair{"master.tenant_quota_connector_type", QuotasInEtcd}, "needs to know where that is, as", pair{"master.tenant_quota_connector_uri", ""}, "must not be empty with")
	}
	if !m.EnableHA {
		return
	}
	if m.HABackendType == HAEmbedded {
		l.checkEmbedded(c)
	} else if m.HABackend() == "" {
		l.between(pair{"master.enable_ha", "true"}, "needs to know where that is, as", pair{"master.ha_backend_connstring", ""}, "must not be empty with")
	}
	if m.RPCPort == 0 {
		l.between(pair{"master.enable_ha", "true"}, "needs a port that is known, not", pair{"master.rpc_port", "0"}, "must not be 0 with")
	}
	if m.HALeaseTTL%time.Second != 0 {
		l.clash("master.ha_lease_ttl", duration(m.HALeaseTTL), "must be whole seconds")
	}
}

// checkEmbedded refuses members that could not form an etcd.
func (l *loader) checkEmbedded(c Config) {
	m, s := c.Master, c.Store
	members, err := m.Members()
	if err != nil {
		l.clash("master.ha_members", strings.Join(m.HAMembers, ","), err.Error())
	}
	known := m.HAMember == "" || err != nil
	for _, one := range members {
		known = known || one.Name == m.HAMember
	}
	if !known {
		l.between(pair{"master.ha_member", m.HAMember}, "must be a name in", pair{"master.ha_members", strings.Join(m.HAMembers, ",")}, "must have the name that is")
	}
	if s.HAUsername != "" {
		l.between(pair{"master.ha_backend_type", m.HABackendType}, "has no users, but certificates (store.ha_cert_file), and works without", pair{"store.ha_username", s.HAUsername}, "must be empty with")
	}
	if (s.HACertFile == "") != (s.HACAFile == "") {
		l.between(pair{"store.ha_cert_file", s.HACertFile}, "goes with the authority of the other masters, ", pair{"store.ha_ca_file", s.HACAFile}, "goes with")
	}
}

// checkPorts refuses two servers of the master on one port.
func (l *loader) checkPorts(m Master) {
	servers := []pair{{"master.rpc_port", strconv.Itoa(m.RPCPort)}, {"master.metrics_port", strconv.Itoa(m.MetricsPort)}}
	if m.EnableHTTPMetadataServer {
		servers = append(servers, pair{"master.http_metadata_server_port", strconv.Itoa(m.HTTPMetadataServerPort)})
	}
	for i, a := range servers {
		for _, b := range servers[:i] {
			if a.text == b.text && a.text != "0" {
				l.between(a, "must differ from", b, "must differ from")
			}
		}
	}
}

// readsMetadataServer reports whether the process uses store.metadata_server, where the
// variable that names it is one that all processes of a host share: a master only removes
// dead nodes from it.
func (l *loader) readsMetadataServer(m Master) bool {
	o := l.layers.origins["store.metadata_server"]
	return l.Role != RoleMaster || m.EnableMetadataCleanupOnTimeout || o.Layer != LayerEnv || !o.Upstream
}

// The ports that may be chosen for a node: those that systems hand out by themselves are
// left out between the two ranges.
const (
	lowPortsEnd    = 32767
	highPortsBegin = 61000
)

func (l *loader) checkAutoPorts(s Store) {
	l.checkPortRange("store.client_min_port", s.ClientMinPort, "store.client_max_port", s.ClientMaxPort)
	l.checkPortRange("store.rpc_min_port", s.RPCMinPort, "store.rpc_max_port", s.RPCMaxPort)
}

func (l *loader) checkPortRange(lowKey string, first int, highKey string, last int) {
	low, high := pair{lowKey, strconv.Itoa(first)}, pair{highKey, strconv.Itoa(last)}
	for _, p := range []struct {
		pair
		port int
	}{{low, first}, {high, last}} {
		if p.port > lowPortsEnd && p.port < highPortsBegin {
			l.clash(p.key, p.text, "must be from 1024 to 32767 or from 61000 to 65535")
			return
		}
	}
	switch {
	case first > last:
		l.between(low, "must be at most", high, "must be at least")
	case first <= lowPortsEnd && last >= highPortsBegin:
		l.between(low, "must be in the same range, 1024 to 32767 or 61000 to 65535, as", high, "must be in the same range, 1024 to 32767 or 61000 to 65535, as")
	}
}

// pair is a setting and its value.
type pair struct{ key, text string }

// between reports two settings that do not fit together, at the one that was given in the
// higher layer.
func (l *loader) between(a pair, wantA string, b pair, wantB string) {
	if l.layers.origins[b.key].Layer > l.layers.origins[a.key].Layer {
		a, b, wantA = b, a, wantB
	}
	l.clash(a.key, a.text, wantA+" "+b.key+" ("+b.text+")")
}

// checkMetadataServer accepts P2PHANDSHAKE, the URL of a metadata server, and host:port,
// which is an etcd. The service itself looks closer.
func checkMetadataServer(text string) error {
	want := errors.New("must be P2PHANDSHAKE, http://host:port/metadata, etcd://host:port,host:port or redis://host:port")
	if text == "P2PHANDSHAKE" {
		return nil
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		if _, _, err := net.SplitHostPort(strings.Split(text, ",")[0]); err != nil {
			return want
		}
		return nil
	}
	switch scheme {
	case "etcd", "redis":
		if strings.Trim(rest, "/,") == "" {
			return want
		}
		return nil
	case "http", "https":
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			return nil
		}
	}
	return want
}

// clash reports a problem with a value in effect, at its origin.
func (l *loader) clash(key, text, reason string) {
	o := l.layers.origins[key]
	l.problem(o, key, &text, reason, "")
}

var variableRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// reservedVariables begin the names of what a plugin's host and its process tell each
// other.
var reservedVariables = []string{"PLUGIN_", "MOONCAKE_PLUGIN_"}

// checkTrust refuses a trust that nothing backs, and variables that a plugin cannot get.
func (l *loader) checkTrust(p Plugins) {
	if p.Lock != "" && !filepath.IsAbs(p.Lock) {
		l.clash("plugins.lock", p.Lock, "must be an absolute path: what is trusted must not depend on the working directory")
	}
	if p.Lock == "" && (p.Trust == "locked" || p.Trust == "tofu") {
		l.clash("plugins.trust", p.Trust, "needs a lock file: plugins.lock")
	}
	l.checkTrustedKeys(p)
	for _, kind := range plugin.Kinds() {
		for name, entry := range p.OfKind(kind) {
			for _, v := range entry.Env {
				if why := badVariable(v); why != "" {
					l.clash("plugins."+kind+"."+name+".env", v, why)
				}
			}
			for key, paths := range map[string][]string{"read": entry.Read, "write": entry.Write} {
				for _, path := range paths {
					if !filepath.IsAbs(path) {
						l.clash("plugins."+kind+"."+name+"."+key, path, "must be an absolute path")
					}
				}
			}
		}
	}
}

// trustedKeyRE is the form of a public key of minisign; core/pluginhost/trust parses it.
var trustedKeyRE = regexp.MustCompile(`^RW[A-Za-z0-9+/]{54}$`)

// checkTrustedKeys refuses keys that cannot be used, and settings under which no signature would count.
func (l *loader) checkTrustedKeys(p Plugins) {
	for _, k := range p.TrustedKeys {
		if !filepath.IsAbs(k) && !trustedKeyRE.MatchString(k) {
			l.clash("plugins.trusted_keys", k, "must be a public key of minisign, 56 characters that begin with RW, or the absolute path of a file with one")
		}
	}
	switch keys := strings.Join(p.TrustedKeys, ","); {
	case keys == "":
	case p.Lock == "":
		l.clash("plugins.trusted_keys", keys, "needs a lock file, which the keys sign: plugins.lock")
	case p.Trust == "tofu" || p.Trust == "off":
		l.clash("plugins.trust", p.Trust, "runs programs without a signature, which plugins.trusted_keys forbids: set it to locked or auto")
	}
}

func badVariable(name string) string {
	if !variableRE.MatchString(name) {
		return "must be the name of an environment variable, without its value: letters, digits and _"
	}
	for _, prefix := range reservedVariables {
		if strings.HasPrefix(name, prefix) {
			return "is reserved: variables that begin with " + prefix + " are set by the host itself"
		}
	}
	return ""
}

// required are the keys that upstream's store service does not start
// without when it reads a file, in the order in which it asks for them.
var required = []string{"local_hostname", "metadata_server", "master_server_address"}

// checkService refuses what a process that was started under the store service's name needs
// and did not get: three keys of its file, or without a file the variable MOONCAKE_MASTER.
// Any other way to set them serves as well.
func (l *loader) checkService() {
	if l.Role != RoleService || !l.UpstreamDefaults {
		return
	}
	missing := func(key string) bool { return l.layers.origins["store."+key].Layer <= LayerPlugin }
	file, from := l.chooseFile()
	if file == "" {
		if key := "master_server_address"; missing(key) {
			l.problem(Origin{Layer: LayerEnv, Name: "MOONCAKE_MASTER"}, "", nil, "is not set", "set it to host:port of the master, or give --config or --master_server_address")
		}
		return
	}
	if from.Layer != LayerFile {
		from = Origin{Layer: LayerFile, File: file}
	}
	for _, key := range required {
		if missing(key) {
			l.problem(from, key, nil, "Missing required config field: "+key, "add it to the file, or give --define "+key+"=VALUE")
		}
	}
}

// checkSecurity refuses settings that protect nothing, or not what they say.
func (l *loader) checkSecurity(s Security) {
	if err := security.CheckAllow(s.Allow); err != nil {
		l.clash("security.allow", strings.Join(s.Allow, ","), err.Error())
	}
	var names []string
	for _, d := range AllDoors() {
		names = append(names, string(d))
	}
	for _, p := range s.Plaintext {
		if !slices.Contains(names, p) {
			l.clash("security.plaintext", p, "must be one of "+strings.Join(names, ", "))
		}
	}
	l.checkSeal(s)
	l.checkTokens(s)
	if !s.On() {
		return
	}
	mode := pair{"security.mode", s.Mode}
	if s.CA == "" {
		l.between(mode, "needs the certificates of the authorities, as", pair{"security.ca", ""}, "must not be empty with")
	}
	if (s.Cert == "") != (s.Key == "") {
		l.between(pair{"security.cert", s.Cert}, "goes with", pair{"security.key", s.Key}, "goes with")
	} else if s.Cert == "" && s.TokenFile == "" && security.Mode(s.Mode) == security.ModeMTLS {
		l.between(mode, "needs a certificate of this process, as", pair{"security.cert", ""}, "must not be empty with")
	}
}

// checkTokens refuses tokens that would travel in plaintext, and those that cannot be verified.
func (l *loader) checkTokens(s Security) {
	list := pair{"security.tokens", strings.Join(s.Tokens, ",")}
	mode := pair{"security.mode", s.Mode}
	if s.TokenFile != "" && s.Plain(DoorAdmin) {
		l.between(pair{"security.token_file", s.TokenFile}, "needs tls or mtls at the door admin, since the network would see the token, as", mode, "must be tls or mtls, without a plaintext door admin, with")
	}
	if len(s.Tokens) == 0 {
		for _, p := range []pair{
			{"security.token_issuer", s.TokenIssuer}, {"security.token_audience", s.TokenAudience}, {"security.token_keys", s.TokenKeys},
			{"security.token_doors", strings.Join(s.TokenDoors, ",")},
		} {
			if p.text != "" {
				l.between(p, "needs identities of tokens, as", list, "must not be empty with")
			}
		}
		return
	}
	if err := tokens.CheckSubjects(s.Tokens); err != nil {
		l.clash(list.key, list.text, err.Error())
	}
	if !s.On() {
		l.between(list, "need tls or mtls, since the network would see tokens, as", mode, "must be tls or mtls with")
	}
	for _, p := range []pair{{"security.token_issuer", s.TokenIssuer}, {"security.token_audience", s.TokenAudience}} {
		if p.text == "" {
			l.between(list, "need", p, "must not be empty with")
		}
	}
	if err := tokens.CheckKeys(s.TokenKeys, s.TokenIssuer); err != nil && s.TokenIssuer != "" {
		l.clash("security.token_keys", s.TokenKeys, err.Error())
	}
	for _, d := range s.TokenDoors {
		if !slices.Contains(TokenDoors(), Door(d)) {
			l.clash("security.token_doors", d, "must be one of admin, metadata, rest, health")
		}
	}
}

// checkSeal refuses keys that cannot be found.
func (l *loader) checkSeal(s Security) {
	seal, keys := pair{"security.seal", s.Seal}, pair{"security.seal_keys", s.SealKeys}
	switch {
	case s.SealKeys == "" && s.Seals():
		l.between(seal, "needs keys, as", keys, "must not be empty with")
	case s.SealKeys == "":
	case sealkeys.Check(s.SealKeys) != nil:
		l.clash("security.seal_keys", s.SealKeys, sealkeys.Check(s.SealKeys).Error())
	case strings.HasPrefix(s.SealKeys, "vault:") && s.SealVaultToken == "" && s.Seals():
		l.between(keys, "needs a token, as", pair{"security.seal_vault_token", ""}, "must not be empty with")
	}
}
