// Package certs has the verbs that make and show certificates.
package certs

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/certs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

const day = 24 * time.Hour

// verbs makes the commands of this package.
type verbs struct{ *command.Env }

// New makes the verb certs and the verbs below it.
func New(env *command.Env) *cobra.Command {
	e := verbs{env}
	return command.Group(&cobra.Command{
		Use:   "certs",
		Short: "Make and show the certificates with which nodes authenticate themselves",
		Long: `Makes an authority for one pool and a certificate for each node, as the section security and
transport/quic require them: ECDSA P-256, for use as server and as client. They are for trials, laboratories and
pools without an authority of their own; certificates from elsewhere work as well.

A node needs three files: the authority's certificate, and its own certificate and key.
The authority's key (ca-key.pem) stays on the machine that makes the certificates.`,
		Example: `  mooncake certs init pki
  mooncake certs issue pki node1 10.0.0.1 --role store
  mooncake certs issue pki node2.example.org 10.0.0.2 --days 90
  mooncake certs show pki/node1.pem
  mooncake certs renew pki/node1.pem`,
	}, e.initCmd(), e.issueCmd(), e.tryCmd(), e.renewCmd(), e.showCmd(), e.spiffeCmd())
}

func (e verbs) initCmd() *cobra.Command {
	var name string
	var days int
	cmd := &cobra.Command{
		Use:     "init DIR",
		Short:   "Make an authority: DIR/ca.pem and DIR/ca-key.pem",
		Example: "  mooncake certs init pki\n  mooncake certs init pki --name 'lab pool' --days 365",
		Args:    command.Args(1, 1, "a folder"),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := certs.Folder(args[0]).Init(name, time.Duration(days)*day, time.Now())
			if err != nil {
				return err
			}
			fmt.Fprintf(e.Stdout, "%s  for every node: the setting ca\n%s  keep it on this machine, readable by you alone\n", f.Cert, f.Key)
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "mooncake development authority", "name in the certificate")
	cmd.Flags().IntVar(&days, "days", 3650, "days for which it is valid")
	return cmd
}

func (e verbs) issueCmd() *cobra.Command {
	var name, role, tenant, trust string
	var days int
	cmd := &cobra.Command{
		Use:   "issue DIR HOST...",
		Short: "Make a certificate for a node that peers reach at these names and addresses",
		Long: `Makes DIR/HOST.pem and DIR/HOST-key.pem, signed by the authority in DIR, for all given names
and addresses: those that the node announces to its peers (--local_hostname, the setting
advertise). It does not overwrite files. With --role it carries the identity
spiffe://TRUST/mooncake/ROLE/NAME, which security.mode mtls demands of clients. A tenant
(spiffe://TRUST/mooncake/ROLE/TENANT/NAME) limits it to the objects of that tenant.`,
		Example: "  mooncake certs issue pki store1 10.0.0.1 --role store\n  mooncake certs issue pki engine1 10.0.0.5 --role client --tenant team-a\n  mooncake certs issue pki node1 10.0.0.1\n  mooncake certs issue pki '*.pool.example.org' --name pool --days 90",
		Args:    command.Args(2, -1, "a folder, and the names or addresses of the node"),
		RunE: func(_ *cobra.Command, args []string) error {
			if name == "" {
				name = args[1]
			}
			dir := certs.Folder(args[0])
			if role == "" && tenant != "" {
				return command.Usagef("--tenant is part of an identity, which needs --role")
			}
			if role == "" {
				f, err := dir.Issue(name, args[1:], time.Duration(days)*day, time.Now())
				if err != nil {
					return err
				}
				return e.saySettings(dir.Authority().Cert, f)
			}
			f, err := dir.Issue(name, args[1:], time.Duration(days)*day, time.Now(), security.Identity{Trust: trust, Role: security.Role(role), Tenant: tenant, Name: name})
			if err != nil {
				return err
			}
			return e.saySecurity(dir.Authority().Cert, f)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the files, and in the identity (default: the first HOST)")
	cmd.Flags().StringVar(&role, "role", "", "role in the identity: master, store, client, operator or reader (default: no identity)")
	cmd.Flags().StringVar(&tenant, "tenant", "", "tenant in the identity, whose objects alone the process may use (default: none)")
	cmd.Flags().StringVar(&trust, "trust", trustDomain, "trust domain in the identity")
	cmd.Flags().IntVar(&days, "days", 365, "days for which it is valid, at most until the authority's certificate expires")
	return cmd
}

// trustDomain is the usual one.
const trustDomain = "mooncake"

func (e verbs) tryCmd() *cobra.Command {
	var trust string
	var days int
	cmd := &cobra.Command{
		Use:   "try DIR [HOST...]",
		Short: "Make an authority and a certificate of each role, for trying security.mode mtls",
		Long: `Makes DIR with an authority, and DIR/ROLE.pem and DIR/ROLE-key.pem for master, store, client,
operator and reader, for processes on this machine and at each HOST. All processes of one role
share a certificate: for more than a trial, issue one for each.`,
		Example: "  mooncake certs try pki",
		Args:    command.Args(1, -1, "a folder, and further names or addresses"),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := certs.Folder(args[0])
			made, err := dir.Try(trust, args[1:], time.Duration(days)*day, time.Now())
			if err != nil {
				return err
			}
			for _, r := range security.Roles() {
				fmt.Fprintf(e.Stdout, "# %s\n", r)
				if err := e.saySecurity(dir.Authority().Cert, made[r]); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&trust, "trust", trustDomain, "trust domain in the identities")
	cmd.Flags().IntVar(&days, "days", 30, "days for which they are valid")
	return cmd
}

// saySecurity prints the section security of a process.
func (e verbs) saySecurity(ca string, f certs.Files) error {
	paths, err := command.Absolute([]string{ca, f.Cert, f.Key})
	if err != nil {
		return err
	}
	fmt.Fprintf(e.Stdout, "security: { mode: mtls, ca: %s, cert: %s, key: %s }\n", paths[0], paths[1], paths[2])
	return nil
}

// saySettings prints the settings for the configuration of a node.
func (e verbs) saySettings(ca string, f certs.Files) error {
	paths, err := command.Absolute([]string{ca, f.Cert, f.Key})
	if err != nil {
		return err
	}
	fmt.Fprintf(e.Stdout, `%s
%s

plugins:
  transport:
    quic: { config: { ca: %s, cert: %s, key: %s } }
`, f.Cert, f.Key, paths[0], paths[1], paths[2])
	return nil
}

func (e verbs) renewCmd() *cobra.Command {
	var dir string
	var days int
	cmd := &cobra.Command{
		Use:   "renew FILE",
		Short: "Replace a node's certificate and key with new ones for the same names",
		Long: `Signs with the authority in the folder of FILE, or in --dir. Running nodes load the new files
by themselves (transport/quic checks every reload_every).`,
		Example: "  mooncake certs renew pki/node1.pem\n  mooncake certs renew /etc/mooncake/node1.pem --dir pki --days 90",
		Args:    command.Args(1, 1, "the file of a certificate"),
		RunE: func(_ *cobra.Command, args []string) error {
			if dir == "" {
				dir = filepath.Dir(args[0])
			}
			f, err := certs.Folder(dir).Renew(args[0], time.Duration(days)*day, time.Now())
			if err != nil {
				return err
			}
			return e.showCerts([]string{f.Cert}, output.Text)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "folder with the authority (default: that of FILE)")
	cmd.Flags().IntVar(&days, "days", 365, "days for which it is valid, at most until the authority's certificate expires")
	return cmd
}

func (e verbs) showCmd() *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:     "show FILE...",
		Short:   "Show the purpose and expiry of certificates",
		Example: "  mooncake certs show pki/node1.pem\n  mooncake certs show /etc/mooncake/*.pem -o json",
		Args:    command.Args(1, -1, "files of certificates"),
		RunE: func(_ *cobra.Command, args []string) error {
			return e.showCerts(args, format)
		},
	}
	output.Flag(cmd.Flags(), &format, "", output.Text, output.JSON)
	return cmd
}

// shown is one certificate, as show prints it.
type shown struct {
	File string `json:"file"`
	certs.Info
}

func (e verbs) showCerts(files []string, format output.Format) error {
	var all []shown
	for _, f := range files {
		list, err := certs.Read(f)
		if err != nil {
			return err
		}
		for _, c := range list {
			all = append(all, shown{f, certs.Describe(c)})
		}
	}
	return output.Print(e.Stdout, format, all, func(w io.Writer) {
		for _, s := range all {
			s.write(w, time.Now())
		}
	})
}

func (s shown) write(w io.Writer, now time.Time) {
	fmt.Fprintln(w, s.File)
	var use []string
	for _, u := range []struct {
		is   bool
		name string
	}{{s.Authority, "authority"}, {s.Server, "server"}, {s.Client, "client"}} {
		if u.is {
			use = append(use, u.name)
		}
	}
	left := s.Ends.Sub(now)
	ends := fmt.Sprintf("in %d days", int(left/day))
	switch {
	case left <= 0:
		ends = "HAS ENDED"
	case now.Before(s.Begins):
		ends = "HAS NOT BEGUN: " + s.Begins.Format(time.RFC3339)
	case left < 2*day:
		ends = "in " + left.Truncate(time.Minute).String()
	}
	t := output.NewColumns()
	for _, line := range [][2]string{
		{"for", output.Dash(s.Subject)}, {"names", output.Dash(strings.Join(s.Names, ", "))}, {"signed by", output.Dash(s.Issuer)},
		{"use", strings.Join(use, ", ")}, {"ends", s.Ends.Format(time.RFC3339) + " (" + ends + ")"}, {"key", s.Key}, {"sha256", s.Fingerprint},
	} {
		t.Row("  "+line[0], line[1])
	}
	_ = t.Write(w) // The writer keeps the error.
}
