package metadata

import (
	"encoding/json"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

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
