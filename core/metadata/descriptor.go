package metadata

import (
	"encoding/json"
	"errors"
)

// ErrNotFound says that the directory has no such segment.
var ErrNotFound = errors.New("no such segment in the metadata service")

// Descriptor is what a node publishes of itself. The JSON form is upstream's segment
// descriptor with a side key of ours, which upstream ignores.
type Descriptor struct {
	Name     string
	Protocol string // "tcp", "rdma"
	// Protocols is nil, except in descriptors of upstream's builds with several protocols
	// at once: then it has all of them, Protocol is the best that we speak, and each buffer
	// tells its own. For picks one. Our own nodes publish no such descriptor.
	Protocols []string
	// TCPDataHost is where upstream's TCP data protocol is spoken, empty for the host of the
	// handshake daemon. Later releases of upstream tell it.
	TCPDataHost     string
	TCPDataPort     int // 0 for none
	TCPProtoVersion int
	Timestamp       string // as Timestamp returns it; informational
	// RDMAServerName is the server in the names of RDMA connections where it is not Name.
	RDMAServerName string
	// Devices are the network devices of the RDMA family.
	Devices []Device
	// Matrix is the topology of the node, nil where it has none to tell:
	// {"cpu:0":[["mlx5_0"],["mlx5_1"]]}, the devices that a location prefers and the other
	// ones that it reaches.
	Matrix  json.RawMessage
	Buffers []Buffer
	// Life and Transports are the side key "x_mooncake_go": what our own nodes use.
	//
	// Life differs for every start of the node, 0 for a node that does not tell. The same life
	// with another incarnation of a transport means that the transport was started again,
	// and the memory is what it was.
	Life       uint64
	Transports []TransportEndpoint
}

// Device is a network device of a node.
type Device struct {
	Name string
	LID  uint32
	GID  string // 16 bytes in lower-case hexadecimal, separated by colons
}

// Buffer is one registered range, in the publisher's address space.
type Buffer struct {
	// Name is the location of the memory ("cpu:0") for the RDMA family, else the node.
	Name   string
	Addr   uint64
	Length uint64
	// RKeys and LKeys hold a key for each of the devices. A buffer of the RDMA family
	// without is not open to peers. Other protocols have none.
	RKeys, LKeys []uint32
	// Protocol is empty, except where the descriptor has several.
	Protocol string
}

// TransportEndpoint is how to reach the node over one of our transports.
type TransportEndpoint struct {
	Name        string // of the transport plugin: "tcp", "rdma"
	Blob        []byte // transport.Endpoint.Blob
	Incarnation uint64
	Regions     []RegionKey
}

// RegionKey is the transport key of one registered range.
type RegionKey struct {
	Addr   uint64
	Length uint64
	Key    []byte
	// Location is where the memory lives, "cpu:0"; empty for unknown.
	Location string
}
