package demo

import (
	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// makeCertificates makes an authority and certificates in the demo's folder, for whom the demo needs them: all
// processes, or the transport.
func (p *pool) makeCertificates() error {
	secure := cluster.Secure(p.opts.Security)
	if !secure && !p.opts.Certificates {
		return nil
	}
	made, err := cluster.MakeCertificates(p.dir, p.opts.Security)
	if err != nil {
		return err
	}
	if !secure {
		node := made.Of(security.RoleStore)
		p.transport = map[string]string{"ca": node.CA, "cert": node.Cert, "key": node.Key}
		return nil
	}
	p.security = made
	return nil
}
