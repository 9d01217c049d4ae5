package config

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
)

const (
	defaultClientPort, defaultPeerPort = 2379, 2380
	// fewestMembers survive the loss of one; more than mostMembers only make etcd slower.
	fewestMembers, mostMembers = 3, 7
)

// HAMember is an entry of master.ha_members.
type HAMember struct {
	// Name is unique in the list; Host is an address or a name of the machine.
	Name, Host string
	// Client and Peer are the ports for clients and for other etcd members.
	Client, Peer int
}

var memberRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

// Members are the entries of ha_members.
func (m Master) Members() ([]HAMember, error) {
	seen := map[string]bool{}
	var all []HAMember
	for _, text := range m.HAMembers {
		one, err := parseMember(text)
		if err != nil {
			return nil, err
		}
		client, peer := net.JoinHostPort(one.Host, strconv.Itoa(one.Client)), net.JoinHostPort(one.Host, strconv.Itoa(one.Peer))
		for _, unique := range []string{one.Name, client, peer} {
			if seen[unique] {
				return nil, fmt.Errorf("has %s twice; each master needs a name and ports of its own", unique)
			}
			seen[unique] = true
		}
		all = append(all, one)
	}
	if n := len(all); n < fewestMembers || n > mostMembers {
		return nil, fmt.Errorf("names %d masters, must be %d to %d: name=host,name=host,name=host", n, fewestMembers, mostMembers)
	}
	return all, nil
}

// parseMember reads name=host, name=host:client_port and name=host:client_port:peer_port.
func parseMember(text string) (HAMember, error) {
	name, at, ok := strings.Cut(strings.TrimSpace(text), "=")
	host, rest := at, ""
	if end := strings.IndexByte(at, ']'); strings.HasPrefix(at, "[") && end > 0 {
		host, rest = at[1:end], at[end+1:]
	} else if i := strings.IndexByte(at, ':'); i >= 0 {
		host, rest = at[:i], at[i:]
	}
	m := HAMember{Name: name, Host: host, Client: defaultClientPort, Peer: defaultPeerPort}
	if !ok || !memberRE.MatchString(name) || host == "" || strings.ContainsAny(host, "/, ") {
		return m, fmt.Errorf("has %q; must be name=host or name=host:client_port:peer_port, with an address of IPv6 in brackets", text)
	}
	err := m.ports(rest)
	if err != nil {
		err = fmt.Errorf("has %q: %w", text, err)
	}
	return m, err
}

// ports reads what follows a host: nothing, :client_port, or :client_port:peer_port.
func (m *HAMember) ports(text string) error {
	if text == "" {
		return nil
	}
	given := strings.Split(text, ":")
	if given[0] != "" || len(given) > 3 {
		return errors.New("after the host come a port for clients and one for peers")
	}
	for i, to := range []*int{&m.Client, &m.Peer}[:len(given)-1] {
		n, err := strconv.ParseUint(given[i+1], 10, 16)
		if err != nil || n == 0 {
			return fmt.Errorf("%q is no port", given[i+1])
		}
		*to = int(n)
	}
	return nil
}
