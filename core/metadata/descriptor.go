package metadata

import "errors"

// ErrNotFound says that the directory has no such segment.
var ErrNotFound = errors.New("no such segment in the metadata service")

// Descriptor is what a node publishes of itself. The JSON form is upstream's segment
// descriptor with a side key of ours, which upstream ignores.
type Descriptor struct {
	Name            string
	Protocol        string // "tcp", "rdma"
	TCPDataPort     int    // port of upstream's TCP data protocol, 0 for none
	TCPProtoVersion int
	Timestamp       string // "2006-01-02 15:04:05.000000", local time, informational
	Buffers         []Buffer
	// Transports is the side key "x_mooncake_go": what our own nodes use.
	Transports []TransportEndpoint
}

// Buffer is one registered range, in the publisher's address space.
type Buffer struct {
	Name   string
	Addr   uint64
	Length uint64
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
}
