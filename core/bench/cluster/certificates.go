package cluster

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/certs"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// certificatesValid is longer than the time before the end of a certificate in which processes warn.
const certificatesValid = 30 * 24 * time.Hour

// Certificates are an authority and a certificate of each role, for a pool on this machine. Nil is a pool in plaintext.
type Certificates struct {
	mode  string
	ca    string
	roles map[security.Role]certs.Files
	doors *doors.Doors // of an operator
}

// CheckSecurity refuses what is no security mode. Empty is off. InvalidParams.
func CheckSecurity(mode string) error {
	modes := []string{"", string(security.ModeOff), string(security.ModeTLS), string(security.ModeMTLS)}
	if !slices.Contains(modes, mode) {
		return errs.New(errs.InvalidParams, "security", "it is %q, want %s", mode, strings.Join(modes[1:], ", "))
	}
	return nil
}

// Secure reports whether processes of a security mode need certificates.
func Secure(mode string) bool { return mode != "" && mode != string(security.ModeOff) }

// MakeCertificates makes certificates in the folder pki below dir, for processes of a security mode.
func MakeCertificates(dir, mode string) (*Certificates, error) {
	folder := certs.Folder(filepath.Join(dir, "pki"))
	made, err := folder.Try("mooncake", nil, certificatesValid, time.Now())
	if err != nil {
		return nil, err
	}
	c := &Certificates{mode: mode, ca: folder.Authority().Cert, roles: made}
	c.doors, err = doors.Open(c.Of(security.RoleOperator), nil)
	return c, err
}

// Of returns the section security of a process of a role, the zero value for nil.
func (c *Certificates) Of(role security.Role) config.Security {
	if c == nil {
		return config.Security{}
	}
	return config.Security{Mode: c.mode, CA: c.ca, Cert: c.roles[role].Cert, Key: c.roles[role].Key}
}

// Environ returns a new environment: base with the section security of a process of a role.
func (c *Certificates) Environ(base []string, role security.Role) []string {
	env := slices.Clone(base)
	if c == nil {
		return env
	}
	s := c.Of(role)
	return append(env, "MOONCAKE_SECURITY_MODE="+s.Mode, "MOONCAKE_SECURITY_CA="+s.CA, "MOONCAKE_SECURITY_CERT="+s.Cert, "MOONCAKE_SECURITY_KEY="+s.Key)
}

// Admin returns a client of the admin ports of masters, as an operator. The caller closes its idle connections. Requests name
// http:// in each mode.
func (c *Certificates) Admin() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // The package says so.
	if c != nil {
		t = c.doors.Transport(t, config.DoorAdmin, security.RoleMaster)
	}
	return &http.Client{Transport: t}
}
