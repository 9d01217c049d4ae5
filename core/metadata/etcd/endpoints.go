package etcd

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	scheme       = "etcd://"
	defaultPort  = "2379"
	maxEndpoints = 16
)

// parse splits "etcd://a:1,b:2", or the same without the scheme, into URLs; a semicolon
// separates as well. An endpoint may have a scheme of its own, http or https, and needs no
// port.
func parse(conn string) ([]string, error) {
	bad := func(format string, args ...any) error {
		return errs.WithHint(errs.New(errs.InvalidParams, "metadata service "+strconv.Quote(conn), format, args...),
			"use etcd://host:port,host:port; user and password are settings of their own")
	}
	list := strings.FieldsFunc(strings.TrimPrefix(conn, scheme), func(r rune) bool { return r == ',' || r == ';' })
	if len(list) == 0 || len(list) > maxEndpoints {
		return nil, bad("%d endpoints; 1 to %d are allowed", len(list), maxEndpoints)
	}
	out := make([]string, 0, len(list))
	for _, text := range list {
		endpoint := strings.TrimSpace(text)
		if !strings.Contains(endpoint, "://") {
			endpoint = "http://" + endpoint
		}
		u, err := url.Parse(endpoint)
		switch {
		case err != nil || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
			return nil, bad("%q is not host and port", text)
		case u.Scheme != "http" && u.Scheme != "https":
			return nil, bad("%q has the scheme %q", text, u.Scheme)
		}
		port := u.Port()
		if port == "" {
			port = defaultPort
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, bad("%q: port %q is not from 1 to 65535", text, port)
		}
		out = append(out, u.Scheme+"://"+net.JoinHostPort(u.Hostname(), port))
	}
	if slices.ContainsFunc(out, func(e string) bool { return strings.HasPrefix(e, "https:") != strings.HasPrefix(out[0], "https:") }) {
		return nil, bad("http and https cannot be mixed")
	}
	return out, nil
}
