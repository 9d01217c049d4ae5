package transport

import (
	"context"
	"encoding/json"
)

// Upstream is what a transport with CapUpstream implements: it also talks to nodes of
// kvcache-ai/Mooncake, which publish a segment descriptor and have no endpoints or keys.
// Safe for concurrent use.
//
// The order of calls: Start, Join once, then the others at any time until Stop.
type Upstream interface {
	// Join sets the name of the segment under which this process publishes. It is called before
	// anything is published.
	Join(name string)
	// Segment returns this transport's share of the descriptor of this process.
	Segment() Segment
	// Translate makes an endpoint to dial and a key for each buffer, in their order, from the
	// descriptor of such a node. A key is nil where its buffer cannot be reached. Equal descriptors
	// give equal endpoints and keys. InvalidParams for a descriptor of another protocol or one that
	// names no way to reach the node.
	Translate(peer PeerSegment) (Endpoint, []Key, error)
	// Accept answers a request of such a node to set a connection up, which arrived at the
	// handshake daemon of this process. Both are JSON.
	Accept(ctx context.Context, request []byte) ([]byte, error)
}

// Segment is what a transport has to say in a segment descriptor. Fields that a protocol does not
// use are empty.
type Segment struct {
	// Protocol is "tcp" or "rdma".
	Protocol string
	// DataHost is tcp_data_host: where DataPort is, empty for the host of the node.
	DataHost string
	// DataPort and DataVersion are tcp_data_port and tcp_proto_version.
	DataPort    int
	DataVersion int
	// ServerName is rdma_server_name, empty where it is the name of the segment.
	ServerName string
	// Devices is `devices`; the keys of a buffer are in the same order.
	Devices []Device
	// Matrix is `priority_matrix`, in the form of the topology matrix; nil for none.
	Matrix json.RawMessage
	// Buffers are the ranges that peers may use.
	Buffers []Buffer
}

// Device is a network device as a segment descriptor has it.
type Device struct {
	Name string
	LID  uint32
	// GID is 16 bytes in lower-case hexadecimal, separated by colons.
	GID string
}

// Buffer is a range of memory as a segment descriptor has it, in the address space of the node that
// published it.
type Buffer struct {
	// Name is the location of the memory for rdma ("cpu:0"), and of no meaning for tcp.
	Name         string
	Addr, Length uint64
	// RKeys and LKeys hold a key for each device; empty without devices.
	RKeys, LKeys []uint32
}

// PeerSegment is the descriptor of another node.
type PeerSegment struct {
	Segment
	// Name is the name of the segment.
	Name string
	// Host and Port are where the handshake daemon of the node listens. Port is 0 where that is not
	// known.
	Host string
	Port int
}
