package security

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Role is what a process is in a pool.
type Role string

// The roles.
const (
	RoleMaster   Role = "master"
	RoleStore    Role = "store"
	RoleClient   Role = "client"
	RoleOperator Role = "operator" // a person or program that administers the pool
	RoleReader   Role = "reader"   // reads metrics and states, changes nothing
)

// Roles returns all roles.
func Roles() []Role { return []Role{RoleMaster, RoleStore, RoleClient, RoleOperator, RoleReader} }

// Identity is who a process is.
type Identity struct {
	Trust  string // the trust domain, empty for a mapped identity
	Role   Role
	Tenant string // whose objects it may use, empty where the certificate names none
	Name   string
}

const (
	scheme    = "spiffe://"
	namespace = "/mooncake/"
	maxURI    = 2048 // bytes, as SPIFFE bounds them
	maxTrust  = 255
	maxName   = 255
)

// URI returns the identity as certificates carry it.
func (id Identity) URI() string {
	return scheme + id.Trust + namespace + id.String()
}

// String returns "ROLE/NAME", or "ROLE/TENANT/NAME".
func (id Identity) String() string {
	if id.Tenant == "" {
		return string(id.Role) + "/" + id.Name
	}
	return string(id.Role) + "/" + id.Tenant + "/" + id.Name
}

// ParseIdentity reads "spiffe://TRUST/mooncake/ROLE/NAME" or "spiffe://TRUST/mooncake/ROLE/TENANT/NAME".
// TRUST has lower-case letters, digits and . - _, TENANT and NAME also upper-case letters; nothing is
// escaped, and nothing follows NAME.
func ParseIdentity(uri string) (Identity, error) {
	bad := func(format string, args ...any) (Identity, error) {
		return Identity{}, fmt.Errorf("%.200q is not spiffe://TRUST/mooncake/ROLE/NAME or spiffe://TRUST/mooncake/ROLE/TENANT/NAME: %s", uri, fmt.Sprintf(format, args...))
	}
	rest, ok := strings.CutPrefix(uri, scheme)
	if !ok || len(uri) > maxURI {
		return bad("it begins otherwise, or has more than %d bytes", maxURI)
	}
	trust, path, ok := strings.Cut(rest, "/")
	role, name, ok2 := strings.Cut(strings.TrimPrefix("/"+path, namespace), "/")
	switch {
	case !ok || !ok2 || !strings.HasPrefix("/"+path, namespace):
		return bad("the path is another one")
	case trust == "" || len(trust) > maxTrust || strings.ContainsFunc(trust, func(r rune) bool { return !plain(r) || 'A' <= r && r <= 'Z' }):
		return bad("a trust domain has 1 to %d lower-case letters, digits and . - _", maxTrust)
	case !slices.Contains(Roles(), Role(role)):
		return bad("the roles are %s", roleNames())
	}
	id := Identity{Trust: trust, Role: Role(role)}
	if err := id.named(name); err != nil {
		return bad("%s", err)
	}
	return id, nil
}

// named takes NAME or TENANT/NAME.
func (id *Identity) named(s string) error {
	tenant, name, ok := strings.Cut(s, "/")
	if !ok {
		tenant, name = "", s
	}
	if ok {
		if err := CheckTenant(tenant); err != nil {
			return err
		}
		if id.Role == RoleMaster {
			return errors.New("a master serves all tenants, so its identity has none")
		}
	}
	id.Tenant, id.Name = tenant, name
	return CheckName(name)
}

// maxTenant is that of a master's tenants, in bytes.
const maxTenant = 255

// CheckTenant reports whether an identity can have the tenant.
func CheckTenant(tenant string) error {
	if len(tenant) > maxTenant || CheckName(tenant) != nil || tenant[0] == '_' {
		return fmt.Errorf("the tenant %.200q must have 1 to %d letters, digits and . - _, and not begin with _", tenant, maxTenant)
	}
	return nil
}

// CheckName reports whether an identity can have the name.
func CheckName(name string) error {
	if name == "" || len(name) > maxName || name == "." || name == ".." || strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return fmt.Errorf("the name %.200q must have 1 to %d letters, digits and . - _", name, maxName)
	}
	return nil
}

func plain(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '-' || r == '_'
}

func roleNames() string {
	var names []string
	for _, r := range Roles() {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}

// ErrNoIdentity says that a certificate carries no identity and no entry of Allow gives it one.
var ErrNoIdentity = errors.New("the certificate carries no identity of mooncake")

// identityIn returns the identity that a certificate carries itself. A URI below /mooncake/ that is
// not an identity is an error, never none.
func identityIn(c *x509.Certificate) (Identity, error) {
	var found Identity
	for _, u := range c.URIs {
		if !strings.EqualFold(u.Scheme, "spiffe") || !strings.HasPrefix(strings.ToLower(u.Path), namespace) {
			continue
		}
		id, err := ParseIdentity(u.String())
		if err != nil {
			return Identity{}, err
		}
		if found.Name != "" {
			return Identity{}, fmt.Errorf("the certificate carries two identities, %s and %s", found.URI(), id.URI())
		}
		found = id
	}
	if found.Name == "" {
		return Identity{}, ErrNoIdentity
	}
	return found, nil
}
