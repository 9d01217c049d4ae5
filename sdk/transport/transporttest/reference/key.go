package reference

import (
	"encoding/binary"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// key is what a peer needs in order to name a region. The secret is random.
type key struct{ incarnation, secret, size uint64 }

func (k key) encode() transport.Key {
	var b []byte
	for _, x := range []uint64{k.incarnation, k.secret, k.size} {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return b
}

func decodeKey(b transport.Key) (key, error) {
	if len(b) != 24 {
		return key{}, errs.WithClass(errs.ClassPermanent, "import", errs.New(errs.InvalidParams, "", "a key has 24 bytes, not %d", len(b)))
	}
	u := binary.LittleEndian.Uint64
	return key{u(b), u(b[8:]), u(b[16:])}, nil
}
