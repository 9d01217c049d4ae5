package metadata

import (
	"encoding/json"
	"slices"
)

// rdmaFamily reports whether descriptors of a protocol have devices, and keys for each.
func rdmaFamily(protocol string) bool {
	switch protocol {
	case "rdma", "barex", "efa", "cxi":
		return true
	}
	return false
}

// narrowKeys reports whether the keys of a protocol are those of verbs, 32 bits wide.
func narrowKeys(protocol string) bool { return protocol == "rdma" || protocol == "barex" }

// strictBuffers reports whether one bad buffer spoils the whole descriptor.
func strictBuffers(protocol string) bool { return protocol == "tcp" || rdmaFamily(protocol) }

// decodeProtocol reads one name, or the list of a node with several protocols, of which
// the best that we speak comes first in the result.
func decodeProtocol(raw json.RawMessage) (best string, all []string, err error) {
	if len(raw) > 0 && raw[0] == '[' {
		if json.Unmarshal(raw, &all) != nil || len(all) == 0 || slices.Contains(all, "") || !validText(all...) {
			return "", nil, invalid("protocol is %s, not a name or a list of names", quote(string(raw)))
		}
		for _, p := range []string{"rdma", "tcp"} {
			if slices.Contains(all, p) {
				return p, all, nil
			}
		}
		return all[0], all, nil
	}
	if len(raw) > 0 && json.Unmarshal(raw, &best) != nil {
		return "", nil, invalid("protocol is %s, not a name or a list of names", quote(string(raw)))
	}
	return best, nil, nil
}

func (d *Descriptor) protocols() []string {
	if len(d.Protocols) > 0 {
		return d.Protocols
	}
	return []string{d.Protocol}
}

// For returns the descriptor as a node that speaks only protocol would publish it, d itself
// where it has no other; false where d does not speak it.
func (d *Descriptor) For(protocol string) (*Descriptor, bool) {
	if !slices.Contains(d.protocols(), protocol) {
		return nil, false
	}
	if len(d.Protocols) == 0 {
		return d, true
	}
	one := *d
	one.Protocol, one.Protocols, one.Buffers = protocol, nil, nil
	for _, b := range d.Buffers {
		if b.Protocol == protocol || b.Protocol == "" && d.Protocol == protocol {
			b.Protocol = ""
			one.Buffers = append(one.Buffers, b)
		}
	}
	if !rdmaFamily(protocol) {
		one.Devices, one.Matrix, one.RDMAServerName = nil, nil, ""
	}
	return &one, true
}
