package metadata

import (
	"encoding/json"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

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

// Address is where the handshake daemon of a node listens, published beside its
// descriptor under Keys.RPCMeta.
type Address struct {
	Host string `json:"ip_or_host_name"`
	Port int    `json:"rpc_port"`
}

// String returns "host:port".
func (a Address) String() string { return JoinName(a.Host, a.Port) }

// EncodeAddress returns the JSON form. InvalidParams for a host or port that peers would
// refuse.
func EncodeAddress(a Address) ([]byte, error) {
	if err := a.validate(errs.InvalidParams); err != nil {
		return nil, err
	}
	return marshal(a)
}

// DecodeAddress parses the JSON form; unknown keys are ignored. DeserializeFail.
func DecodeAddress(b []byte) (Address, error) {
	var a Address
	if err := json.Unmarshal(b, &a); err != nil {
		return Address{}, errs.Wrap(errs.DeserializeFail, "metadata: decode address of a node", err)
	}
	return a, a.validate(errs.DeserializeFail)
}

func (a Address) validate(code errs.Code) error {
	if a.Port < 1 || a.Port > 65535 {
		return errs.New(code, "metadata: address of a node", "port %d is not from 1 to 65535", a.Port)
	}
	if err := checkHost(a.Host, a.Host); err != nil {
		return errs.Wrap(code, "metadata: address of a node", err)
	}
	return nil
}
