// Package foreign tells protocols apart by the first bytes of a connection, so that a mismatch of
// client and server is reported at once instead of by a timeout. FromClient names the protocol of
// a client, FromServer and Ask that of a server. Refusal is the answer to such a client, and Log
// writes the log line.
package foreign

import (
	"bytes"
	"encoding/binary"
)

// Protocol is what one side of a connection speaks.
type Protocol uint8

// The protocols that clients of other programs speak, and the two that a master serves.
const (
	// Unknown is none of the others.
	Unknown Protocol = iota
	// CoroRPC is the RPC of upstream's store clients and masters.
	CoroRPC
	// CoroRDMA is the handshake with which upstream switches its RPC to RDMA.
	CoroRDMA
	// HTTP is HTTP/1.
	HTTP
	// TLS is any protocol inside TLS.
	TLS
	// Redis is the protocol of Redis.
	Redis
	// HTTP2 is HTTP/2 without TLS, as gRPC uses it.
	HTTP2
	// Lean is this project's own framing (package lean).
	Lean
)

var names = [...]string{"unknown", "coro_rpc", "coro_rpc_rdma", "http", "tls", "redis", "http2", "lean"}

// String returns the name for logs and metric labels.
func (p Protocol) String() string {
	if int(p) < len(names) {
		return names[p]
	}
	return names[Unknown]
}

// Least is how many bytes FromClient and FromServer need to recognise every protocol.
const Least = 4

// coroMagic begins every frame of coro_rpc, before its version, which is 0.
const coroMagic = 0x15

// coroRDMA is the type code that begins the RDMA handshake of coro_rpc.
var coroRDMA = []byte{0x3e, 0x3a, 0xe3, 0xa2}

// verbs are the beginnings of requests of HTTP/1. "PRI " is HTTP/2.
var verbs = []string{"GET ", "HEAD", "POST", "PUT ", "DELE", "OPTI", "PATC", "CONN", "TRAC"}

// FromClient names the protocol of a client by its first bytes. It is Unknown for fewer than
// Least bytes.
func FromClient(first []byte) Protocol {
	if len(first) < Least {
		return Unknown
	}
	switch four := first[:Least]; {
	case string(four) == "MCL1":
		return Lean
	case string(four) == "PRI ":
		return HTTP2
	case four[0] == coroMagic && four[1] == 0 && four[2] == 0:
		return CoroRPC
	case bytes.Equal(four, coroRDMA):
		return CoroRDMA
	case four[0] == 0x16 && four[1] == 3:
		return TLS
	case four[0] == '*' && '1' <= four[1] && four[1] <= '9':
		return Redis
	}
	for _, v := range verbs {
		if string(first[:Least]) == v {
			return HTTP
		}
	}
	return Unknown
}

// FromServer names the protocol of a server by the first bytes of its answer. It is Unknown for
// fewer than Least bytes.
func FromServer(first []byte) Protocol {
	if len(first) < Least {
		return Unknown
	}
	switch four := first[:Least]; {
	case string(four) == "MCL1":
		return Lean
	case string(four) == "HTTP":
		return HTTP
	case four[0] == 0 && four[1] == 0 && four[2]%6 == 0 && four[3] == 4:
		return HTTP2 // A frame of settings, 6 bytes each.
	case (four[0] == 0x15 || four[0] == 0x16) && four[1] == 3:
		return TLS // An alert, or the server's hello.
	case four[0] == coroMagic && four[1] == 0:
		return CoroRPC
	case string(four) == "-ERR", string(four) == "-NOA", string(four) == "-DEN":
		return Redis // ERR, NOAUTH, DENIED.
	}
	return Unknown
}

// sequence returns the number of the call that a request of coro_rpc begins with.
func sequence(first []byte) (uint32, bool) {
	if len(first) < 8 {
		return 0, false
	}
	return binary.LittleEndian.Uint32(first[4:8]), true
}
