package security

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
)

// mapping gives an identity to certificates that carry none.
type mapping struct {
	id          Identity // its name is empty for the name that matched
	kind, value string
}

// The kinds of names that entries of Allow match.
const (
	kindDNS     = "dns"
	kindURI     = "uri"
	kindSubject = "subject"
)

// parseAllow reads entries ROLE[/[TENANT/]NAME]=PATTERN. PATTERN is dns:NAME, where *.DOMAIN stands for any one
// label below DOMAIN; uri:URI, where a final * stands for anything; or subject:DN as RFC 2253 writes
// it, with / for its commas where entries are separated by commas. A bare PATTERN is a DNS name.
func parseAllow(entries []string) ([]mapping, error) {
	var out []mapping
	for _, e := range entries {
		id, pattern, err := ParseMapping(e)
		if err != nil {
			return nil, err
		}
		m := mapping{id: id}
		if m.kind, m.value, _ = strings.Cut(pattern, ":"); !slices.Contains([]string{kindDNS, kindURI, kindSubject}, m.kind) {
			m.kind, m.value = kindDNS, pattern
		}
		switch {
		case m.value == "":
			return nil, fmt.Errorf("%q: a PATTERN is dns:NAME, uri:URI or subject:DN", e)
		case m.kind == kindDNS && (strings.Contains(strings.TrimPrefix(m.value, "*."), "*") || m.value == "*."):
			return nil, fmt.Errorf("%q: * stands for the first label only, as in *.stores.example.org", e)
		}
		out = append(out, m)
	}
	return out, nil
}

// ParseMapping reads an entry ROLE=PATTERN, ROLE/NAME=PATTERN or ROLE/TENANT/NAME=PATTERN, which gives an identity to
// what PATTERN stands for. The name is empty where the entry has none.
func ParseMapping(entry string) (id Identity, pattern string, err error) {
	who, pattern, _ := strings.Cut(strings.TrimSpace(entry), "=")
	role, name, named := strings.Cut(who, "/")
	id.Role = Role(role)
	switch {
	case pattern == "":
		return Identity{}, "", fmt.Errorf("%q: an entry is ROLE=PATTERN, ROLE/NAME=PATTERN or ROLE/TENANT/NAME=PATTERN", entry)
	case !slices.Contains(Roles(), id.Role):
		return Identity{}, "", fmt.Errorf("%q: the roles are %s", entry, roleNames())
	case named:
		if err := id.named(name); err != nil {
			return Identity{}, "", fmt.Errorf("%q: %w", entry, err)
		}
	}
	return id, pattern, nil
}

// CheckAllow reports the first entry of Settings.Allow that cannot be read.
func CheckAllow(entries []string) error {
	_, err := parseAllow(entries)
	return err
}

// mapped returns the identity that the first matching entry gives to a certificate.
func mapped(c *x509.Certificate, allow []mapping) (Identity, error) {
	for _, m := range allow {
		if name, ok := m.matches(c); ok {
			id := m.id
			if id.Name == "" {
				id.Name = name
			}
			return id, nil
		}
	}
	return Identity{}, ErrNoIdentity
}

func (m mapping) matches(c *x509.Certificate) (name string, ok bool) {
	switch m.kind {
	case kindSubject:
		dn := c.Subject.String()
		return dn, dn == m.value || dn == strings.ReplaceAll(m.value, "/", ",")
	case kindURI:
		for _, u := range c.URIs {
			s := u.String()
			if prefix, open := strings.CutSuffix(m.value, "*"); s == m.value || open && strings.HasPrefix(s, prefix) {
				return s, true
			}
		}
		return "", false
	}
	for _, n := range c.DNSNames {
		if n = strings.TrimSuffix(n, "."); matchesDNS(m.value, n) {
			return n, true
		}
	}
	return "", false
}

// matchesDNS reports whether a name of a certificate is meant by a pattern. A wildcard in the
// certificate is compared as it stands.
func matchesDNS(pattern, name string) bool {
	if domain, wild := strings.CutPrefix(pattern, "*."); wild {
		label, rest, ok := strings.Cut(name, ".")
		return ok && label != "" && strings.EqualFold(rest, domain)
	}
	return strings.EqualFold(pattern, name)
}
