// Package masteraddr reads how users name the master of a pool: host:port, a list of masters of which one
// leads, or the directory that says which one leads.
package masteraddr

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Most bounds the masters of a list.
const Most = 16

// Want says which texts are addresses.
const Want = "host:port of the master, a list of masters (host:port,host:port), or etcd://host:port;host:port, redis://host:port or k8s://namespace/lease, which says who leads"

// Address has either Masters or Directory.
type Address struct {
	// Masters are host:port of each, at most Most.
	Masters []string
	// Directory has one of the schemes etcd, redis and k8s.
	Directory string
}

// Parse reads an address. It looks no further into that of a directory, which is for its backend to do.
func Parse(text string) (Address, error) {
	text = strings.TrimSpace(text)
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		switch {
		case scheme != "etcd" && scheme != "redis" && scheme != "k8s":
			return Address{}, fmt.Errorf("has the scheme %q; must be %s", scheme, Want)
		case strings.Trim(rest, ",; /") == "":
			return Address{}, fmt.Errorf("names nothing after %s://; must be %s", scheme, Want)
		}
		return Address{Directory: text}, nil
	}
	var a Address
	for one := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ';' }) {
		host, port, err := net.SplitHostPort(strings.TrimSpace(one))
		if n, e := strconv.ParseUint(port, 10, 16); err != nil || e != nil || host == "" || n == 0 {
			return Address{}, fmt.Errorf("must be host:port with a port from 1 to 65535, such as 127.0.0.1:50051 or [::1]:50051, or a list of them, not %q", one)
		}
		a.Masters = append(a.Masters, net.JoinHostPort(host, port))
	}
	if len(a.Masters) == 0 || len(a.Masters) > Most {
		return Address{}, fmt.Errorf("names %d masters, 1 to %d are allowed; must be %s", len(a.Masters), Most, Want)
	}
	return a, nil
}

// String is the address as Parse reads it.
func (a Address) String() string {
	if a.Directory != "" {
		return a.Directory
	}
	return strings.Join(a.Masters, ",")
}
