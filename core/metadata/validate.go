package metadata

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

func invalid(format string, args ...any) error {
	return errs.New(errs.InvalidParams, "descriptor", format, args...)
}

// validate refuses what upstream's nodes drop.
func validate(d *Descriptor) error {
	switch {
	case d.Protocol == "":
		return invalid("it has no protocol")
	case d.TCPDataPort < 0 || d.TCPDataPort > 65535:
		return invalid("tcp_data_port %d is not a port", d.TCPDataPort)
	case !validText(d.Name) || len(d.Name) > MaxNameSize:
		return invalid("the name %s is not UTF-8 of at most %d bytes", quote(d.Name), MaxNameSize)
	case !validText(d.RDMAServerName) || len(d.RDMAServerName) > MaxNameSize:
		return invalid("the rdma_server_name %s is not UTF-8 of at most %d bytes", quote(d.RDMAServerName), MaxNameSize)
	case !validText(d.TCPDataHost) || len(d.TCPDataHost) > MaxNameSize:
		return invalid("the tcp_data_host %s is not UTF-8 of at most %d bytes", quote(d.TCPDataHost), MaxNameSize)
	}
	for i, v := range d.Devices {
		if v.Name == "" || v.GID == "" || !validText(v.Name, v.GID) {
			return invalid("device %d (name %s, gid %s) has an empty field", i, quote(v.Name), quote(v.GID))
		}
	}
	for i, b := range d.Buffers {
		protocol := d.Protocol
		if b.Protocol != "" {
			protocol = b.Protocol
		}
		switch {
		case b.Addr == 0 || b.Length == 0 || (b.Name == "" && strictBuffers(protocol)):
			return invalid("buffer %d (name %s, address %#x, %d bytes) has an empty field", i, quote(b.Name), b.Addr, b.Length)
		case !validText(b.Name, b.Protocol):
			return invalid("buffer %d: the name %s is not UTF-8", i, quote(b.Name))
		case b.Addr+b.Length < b.Addr:
			return invalid("buffer %d: %d bytes at %#x go beyond the address space", i, b.Length, b.Addr)
		}
	}
	return nil
}

// validateOwn is validate for what this process publishes. It returns the matrix as it is
// written.
func validateOwn(d *Descriptor) (json.RawMessage, error) {
	if len(d.Protocols) > 0 {
		return nil, invalid("it has several protocols, which most nodes cannot read; publish one of them")
	}
	if err := validate(d); err != nil {
		return nil, err
	}
	for i, b := range d.Buffers {
		if err := checkKeys(widen(b.RKeys), widen(b.LKeys), len(d.Devices), d.Protocol); err != nil {
			return nil, invalid("buffer %d: %w", i, err)
		}
	}
	if !rdmaFamily(d.Protocol) {
		return nil, nil
	}
	matrix, names, err := parseMatrix(d.Matrix)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if !slices.ContainsFunc(d.Devices, func(v Device) bool { return v.Name == n }) {
			return nil, invalid("priority_matrix names %s, which is no device of the descriptor; upstream's nodes would use a key that is not there", quote(n))
		}
	}
	return matrix, nil
}

// checkKeys compares the numbers of keys of a buffer with that of the devices. No rkey is
// a buffer that is not open to peers.
func checkKeys(rkey, lkey *[]uint64, devices int, protocol string) error {
	if !rdmaFamily(protocol) || rkey == nil || len(*rkey) == 0 {
		return nil
	}
	if n := count(lkey); n != len(*rkey) {
		return fmt.Errorf("%d keys in rkey and %d in lkey", len(*rkey), n)
	}
	if protocol != "barex" && len(*rkey) != devices {
		return fmt.Errorf("%d keys for %d devices", len(*rkey), devices)
	}
	return nil
}

func count(keys *[]uint64) int {
	if keys == nil {
		return 0
	}
	return len(*keys)
}
