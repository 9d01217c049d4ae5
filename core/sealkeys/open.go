package sealkeys

import "strings"

// Open opens the keys at a place: file:PATH, or vault:URL, where URL is that of a key of the secrets engine transit,
// https://HOST:PORT/MOUNT/NAME. {tenant} in NAME stands for the tenant. It asks no server.
func Open(place string, o Options) (Keys, error) {
	if o.Warn == nil {
		o.Warn = func(string, error) {}
	}
	kind, rest, _ := strings.Cut(place, ":")
	switch kind {
	case "file":
		return openFile(rest, o)
	case "vault":
		return openVault(rest, o)
	}
	return nil, badPlace(place, "it begins with neither file: nor vault:")
}
