package demo

import (
	"path/filepath"
	"time"

	"github.com/mooncake-go/mooncake/core/certs"
)

// makeCertificates makes an authority and one certificate for all processes, in the demo's
// folder, where the transport asks for certificates.
func (p *pool) makeCertificates() error {
	if !p.opts.Certificates {
		return nil
	}
	const valid = 30 * 24 * time.Hour // Longer than transports warn before the end.
	dir := certs.Folder(filepath.Join(p.dir, "pki"))
	ca, err := dir.Init("mooncake demo", valid, time.Now())
	if err != nil {
		return err
	}
	node, err := dir.Issue("demo", []string{"127.0.0.1", "localhost"}, valid, time.Now())
	if err != nil {
		return err
	}
	p.transport = map[string]string{"ca": ca.Cert, "cert": node.Cert, "key": node.Key}
	return nil
}
