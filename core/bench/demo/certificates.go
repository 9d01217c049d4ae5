package demo

import (
	"cmp"
	"net/http"
	"path/filepath"
	"time"

	"github.com/mooncake-go/mooncake/core/certs"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// makeCertificates makes an authority and certificates in the demo's folder, for whom the demo needs them: all
// processes, or the transport.
func (p *pool) makeCertificates() error {
	if !p.opts.secure() && !p.opts.Certificates {
		return nil
	}
	const valid = 30 * 24 * time.Hour // Longer than processes warn before the end.
	dir := certs.Folder(filepath.Join(p.dir, "pki"))
	made, err := dir.Try("demo", nil, valid, time.Now())
	if err != nil {
		return err
	}
	if !p.opts.secure() {
		node := made[security.RoleStore]
		p.transport = map[string]string{"ca": dir.Authority().Cert, "cert": node.Cert, "key": node.Key}
		return nil
	}
	p.security = map[security.Role]config.Security{}
	for role, f := range made {
		p.security[role] = config.Security{Mode: p.opts.Security, CA: dir.Authority().Cert, Cert: f.Cert, Key: f.Key}
	}
	if p.doors, err = doors.Open(p.security[security.RoleOperator], nil); err != nil {
		return err
	}
	p.http.Transport = p.doors.Transport(http.DefaultTransport.(*http.Transport).Clone(), config.DoorAdmin, security.RoleMaster) //nolint:forcetypeassert // The package says so.
	return nil
}

func (o Options) secure() bool {
	return cmp.Or(o.Security, string(security.ModeOff)) != string(security.ModeOff)
}

// environ is the environment of a process of a role.
func (p *pool) environ(role security.Role) []string {
	s, ok := p.security[role]
	if !ok {
		return p.opts.Environ
	}
	return append(p.opts.Environ[:len(p.opts.Environ):len(p.opts.Environ)],
		"MOONCAKE_SECURITY_MODE="+s.Mode, "MOONCAKE_SECURITY_CA="+s.CA, "MOONCAKE_SECURITY_CERT="+s.Cert, "MOONCAKE_SECURITY_KEY="+s.Key)
}
