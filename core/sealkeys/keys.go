// Package sealkeys has the keys with which clients seal objects: from a file, or from a Vault server.
package sealkeys

import (
	"context"
	"errors"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// SecretSize is the size of a key in bytes.
const SecretSize = 32

// ErrUnknown is the error for a key that a tenant does not have.
var ErrUnknown = errors.New("the tenant has no such key")

// Key is a key of a tenant. The ID is public, and stored with what the key has sealed.
type Key struct {
	ID     string
	Secret [SecretSize]byte
}

// Keys are the keys of tenants. Safe for concurrent use. Calls end in bounded time, at the latest when their context does.
type Keys interface {
	// Current returns the key to seal with.
	Current(ctx context.Context, tenant string) (Key, error)
	// Find returns the key with an ID, or ErrUnknown.
	Find(ctx context.Context, tenant, id string) (Key, error)
	// Close ends what the keys need. There are no calls in progress, and no later ones.
	Close()
}

// Options are what Open needs besides the place of the keys.
type Options struct {
	// TokenFile has the token for a Vault server, and CAFile the certificates of the authorities that sign that
	// of the server; empty for those of the system.
	TokenFile, CAFile string
	// Period is how long a data key of a Vault server seals new objects. Default 24 h.
	Period time.Duration
	// Warn gets trouble that the keys survive; nil for none.
	Warn func(message string, err error)
}

// Check returns an error for a place that Open would refuse as it is written.
func Check(place string) error {
	kind, rest, _ := strings.Cut(place, ":")
	switch {
	case kind == "file" && rest != "":
		return nil
	case kind == "vault":
		_, _, _, err := parseVault(rest)
		return err
	}
	return badPlace(place, "it begins with neither file: nor vault:")
}

// badPlace is the error for a place that is written wrongly.
func badPlace(place, why string) error {
	return errs.WithHint(errs.New(errs.InvalidParams, "security.seal_keys", "%q names no keys: %s", place, why),
		"write file:PATH, or vault:https://HOST:PORT/MOUNT/NAME")
}

// parseVault returns the address of a server, the mount of its engine and the name of the key.
func parseVault(s string) (server *url.URL, mount, name string, err error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, "", "", badPlace("vault:"+s, err.Error())
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return nil, "", "", badPlace("vault:"+s, "its address must begin with https://, since the keys themselves travel to it")
	case u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, "", "", badPlace("vault:"+s, "an address has a host, and no user or query")
	}
	clean := strings.Trim(path.Clean(u.Path), "/")
	mount, name = path.Split(clean)
	mount = strings.Trim(mount, "/")
	if mount == "" || name == "" {
		return nil, "", "", badPlace("vault:"+s, "its path is not that of a key, MOUNT/NAME")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, mount, name, nil
}

func loopback(host string) bool { return host == "localhost" || host == "127.0.0.1" || host == "::1" }
