package certs

import (
	"crypto/ecdsa"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// Folder is where an authority and the certificates of nodes lie: ca.pem and ca-key.pem,
// and NODE.pem and NODE-key.pem for each node. The nodes need ca.pem and their own two files; ca-key.pem
// should stay where certificates are made.
type Folder string

// Files are the two files of a certificate.
type Files struct{ Cert, Key string }

func (f Folder) files(name string) Files {
	return Files{Cert: filepath.Join(string(f), name+".pem"), Key: filepath.Join(string(f), name+"-key.pem")}
}

// Authority names the files of the authority.
func (f Folder) Authority() Files { return f.files("ca") }

// Node names the files of a node.
func (f Folder) Node(name string) (Files, error) {
	name = strings.ReplaceAll(strings.ReplaceAll(name, "*", "any"), ":", "-")
	if name == "" || name == "ca" || strings.HasSuffix(name, "-key") || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\\\x00") {
		return Files{}, errs.New(errs.InvalidParams, "certs", "%q cannot be the name of a node's files", name)
	}
	return f.files(name), nil
}

// Init makes the folder and an authority in it.
func (f Folder) Init(name string, valid time.Duration, now time.Time) (Files, error) {
	p, err := NewAuthority(name, valid, now)
	if err != nil {
		return Files{}, err
	}
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return Files{}, fmt.Errorf("certs: %w", err)
	}
	return f.Authority(), p.create(f.Authority())
}

// Issue makes the certificate of a node in the folder. ids is its identity, none or one.
func (f Folder) Issue(name string, hosts []string, valid time.Duration, now time.Time, ids ...security.Identity) (Files, error) {
	to, err := f.Node(name)
	if err != nil {
		return Files{}, err
	}
	ca, err := load(f.Authority())
	if err != nil {
		return Files{}, errs.WithHint(err, "%s", "'mooncake certs init "+string(f)+"' makes an authority")
	}
	var uris []*url.URL
	for _, id := range ids {
		if _, err := security.ParseIdentity(id.URI()); err != nil {
			return Files{}, errs.Wrap(errs.InvalidParams, "certs", err)
		}
		uris = append(uris, &url.URL{Scheme: "spiffe", Host: id.Trust, Path: "/mooncake/" + id.String()})
	}
	p, err := ca.Issue(hosts, valid, now, uris...)
	if err != nil {
		return Files{}, err
	}
	return to, p.create(to)
}

// Renew replaces a certificate of a node by one for the same names, with a new key, that
// the authority of the folder signs. A program that reads the two files in between finds that they do
// not belong together.
func (f Folder) Renew(cert string, valid time.Duration, now time.Time) (Files, error) {
	files := KeyOf(cert)
	old, err := load(files)
	if err != nil {
		return files, err
	}
	if old.Cert.IsCA {
		return files, errs.WithHint(errs.New(errs.InvalidParams, "certs", "%s is an authority; what it signed would be refused with a new one", cert),
			"make a new authority in another folder, put both certificates in the file that ca names on all nodes, then issue new certificates")
	}
	ca, err := load(f.Authority())
	if err != nil {
		return files, err
	}
	hosts := append([]string(nil), old.Cert.DNSNames...)
	for _, ip := range old.Cert.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	p, err := ca.Issue(hosts, valid, now, old.Cert.URIs...)
	if err != nil {
		return files, err
	}
	return files, p.replace(files)
}

// KeyOf names the files of the certificate in cert, by the names that this package gives.
func KeyOf(cert string) Files {
	return Files{Cert: cert, Key: strings.TrimSuffix(cert, ".pem") + "-key.pem"}
}

func load(f Files) (*Pair, error) {
	c, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, "certs: "+f.Cert+" and "+f.Key, err)
	}
	key, ok := c.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errs.New(errs.NotSupported, "certs", "%s: not an ECDSA key; this program signs with those only", f.Key)
	}
	return &Pair{Cert: c.Leaf, Key: key}, nil
}

// create writes both files, which must not exist.
func (p *Pair) create(f Files) error {
	cert, key, err := p.PEM()
	if err != nil {
		return err
	}
	for _, name := range []string{f.Cert, f.Key} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return exists(name)
		}
	}
	// The key first: a certificate without one is of no use, and a second try would stop at it.
	if err := writeNew(f.Key, key, 0o600); err != nil {
		return err
	}
	if err := writeNew(f.Cert, cert, 0o644); err != nil {
		return errors.Join(err, os.Remove(f.Key))
	}
	return nil
}

func exists(name string) error {
	return errs.WithHint(errs.New(errs.ObjectAlreadyExists, "certs", "%s is there already; nothing was written", name),
		"'mooncake certs renew' replaces the certificate of a node; for anything else remove the file first")
}

func writeNew(name string, data []byte, mode os.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return exists(name)
	}
	if err != nil {
		return fmt.Errorf("certs: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("certs: %w", err), os.Remove(name))
	}
	return nil
}

// replace puts both files in the place of the ones there, each whole.
func (p *Pair) replace(f Files) error {
	cert, key, err := p.PEM()
	if err != nil {
		return err
	}
	next := Files{Cert: f.Cert + ".new", Key: f.Key + ".new"}
	_, _ = os.Remove(next.Cert), os.Remove(next.Key) // Of an attempt that was cut short.
	if err := writeNew(next.Key, key, 0o600); err != nil {
		return err
	}
	if err := writeNew(next.Cert, cert, 0o644); err != nil {
		return errors.Join(err, os.Remove(next.Key))
	}
	if err := os.Rename(next.Key, f.Key); err != nil {
		return errors.Join(fmt.Errorf("certs: %w", err), os.Remove(next.Key), os.Remove(next.Cert))
	}
	return os.Rename(next.Cert, f.Cert)
}

// Try makes the folder with an authority, and a certificate of each role for processes on this machine and at hosts:
// ROLE.pem and ROLE-key.pem.
func (f Folder) Try(trust string, hosts []string, valid time.Duration, now time.Time) (map[security.Role]Files, error) {
	if _, err := f.Init("mooncake trial authority", valid, now); err != nil {
		return nil, err
	}
	made := map[security.Role]Files{}
	for _, r := range security.Roles() {
		files, err := f.Issue(string(r), append([]string{"localhost", "127.0.0.1", "::1"}, hosts...), valid, now, security.Identity{Trust: trust, Role: r, Name: "try"})
		if err != nil {
			return nil, err
		}
		made[r] = files
	}
	return made, nil
}
