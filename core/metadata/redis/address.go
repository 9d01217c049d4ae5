package redis

import (
	"net"
	"net/url"
	"strconv"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

const defaultPort = "6379"

// parse returns host and port of "redis://host:port"; the port may be left out.
func parse(conn string) (string, error) {
	bad := func(format string, args ...any) error {
		return errs.WithHint(errs.New(errs.InvalidParams, "metadata service redis", format, args...),
			"use redis://host:port; user, password and database are settings of their own")
	}
	u, err := url.Parse(conn)
	switch {
	case err != nil: // The text may hold a password, and so may the error.
		return "", bad("the address is not redis://host:port")
	case u.User != nil:
		return "", bad("redis://...@%s: the address holds a user", u.Host)
	case u.Scheme != "redis" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return "", bad("%q is not redis://host:port", conn)
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", bad("%q: port %q is not from 1 to 65535", conn, port)
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}
