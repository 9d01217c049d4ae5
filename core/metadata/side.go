package metadata

import (
	"encoding/json"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// sideVersion is the version of the side key. Another version is ignored: the node can
// still be reached in the ways that all descriptors have.
const sideVersion = 1

// sideJSON is the side key "x_mooncake_go". Bytes are base64.
type sideJSON struct {
	Life       uint64          `json:"life,omitempty"`
	Transports []transportJSON `json:"transports"`
	Version    int             `json:"v"`
}

type transportJSON struct {
	Blob        []byte       `json:"blob"`
	Incarnation uint64       `json:"incarnation"`
	Name        string       `json:"name"`
	Regions     []regionJSON `json:"regions"`
}

type regionJSON struct {
	Addr     uint64 `json:"addr"`
	Key      []byte `json:"key"`
	Length   uint64 `json:"length"`
	Location string `json:"location,omitempty"`
}

// encodeSide returns nil where there is nothing to say.
func encodeSide(life uint64, list []TransportEndpoint) (json.RawMessage, error) {
	if len(list) == 0 {
		return nil, nil
	}
	s := sideJSON{Life: life, Version: sideVersion, Transports: make([]transportJSON, 0, len(list))}
	for _, t := range list {
		j := transportJSON{Name: t.Name, Blob: notNil(t.Blob), Incarnation: t.Incarnation, Regions: make([]regionJSON, 0, len(t.Regions))}
		for _, r := range t.Regions {
			j.Regions = append(j.Regions, regionJSON{Addr: r.Addr, Length: r.Length, Key: notNil(r.Key), Location: r.Location})
		}
		s.Transports = append(s.Transports, j)
	}
	raw, err := marshal(s)
	if err != nil {
		return nil, err
	}
	_, _, err = decodeSide(raw) // What peers would refuse is not published.
	return raw, err
}

func decodeSide(raw json.RawMessage) (life uint64, out []TransportEndpoint, err error) {
	var version struct {
		V int `json:"v"`
	}
	if len(raw) == 0 {
		return 0, nil, nil
	}
	if err := json.Unmarshal(raw, &version); err != nil {
		return 0, nil, errs.Wrap(errs.InvalidParams, "x_mooncake_go", err)
	}
	if version.V != sideVersion {
		return 0, nil, nil
	}
	var s sideJSON
	if err := json.Unmarshal(raw, &s); err != nil {
		return 0, nil, errs.Wrap(errs.InvalidParams, "x_mooncake_go", err)
	}
	for i, j := range s.Transports {
		if j.Name == "" {
			return 0, nil, errs.New(errs.InvalidParams, "x_mooncake_go", "transport %d has no name", i)
		}
		t := TransportEndpoint{Name: j.Name, Blob: notNil(j.Blob), Incarnation: j.Incarnation}
		for n, r := range j.Regions {
			if r.Length == 0 || r.Addr+r.Length < r.Addr {
				return 0, nil, errs.New(errs.InvalidParams, "x_mooncake_go", "transport %q: region %d of %d bytes at %#x is no range", j.Name, n, r.Length, r.Addr)
			}
			t.Regions = append(t.Regions, RegionKey{Addr: r.Addr, Length: r.Length, Key: notNil(r.Key), Location: r.Location})
		}
		out = append(out, t)
	}
	return s.Life, out, nil
}

// notNil makes an empty value "" rather than null.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
