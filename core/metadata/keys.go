package metadata

import "strings"

// Keys names the keys of one cluster in a Store. The zero value is the cluster without an
// identifier.
type Keys struct {
	// Cluster separates pools that share a metadata service; empty for none.
	Cluster string
}

const rpcMetaPart = "rpc_meta/"

func (k Keys) prefix() string {
	if k.Cluster == "" {
		return "mooncake/"
	}
	return "mooncake/" + k.Cluster + "/"
}

// Segment returns the key of a descriptor. A name with a slash is a key of its own below
// the prefix.
func (k Keys) Segment(name string) string {
	if strings.Contains(name, "/") {
		return k.prefix() + name
	}
	return k.prefix() + "ram/" + name
}

// RPCMeta returns the key of a node's address.
func (k Keys) RPCMeta(name string) string { return k.prefix() + rpcMetaPart + name }

// IsRPCMeta reports whether the value of a key may only be replaced after it was deleted.
func IsRPCMeta(key string) bool { return strings.Contains(key, "rpc_meta") }
