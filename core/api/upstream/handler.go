// Package upstream serves the clients of upstream's releases at the RPC port of a master: the
// frames of coro_rpc, over connections of package framed, and which release is at the other end. What
// the calls do is for a Handler.
package upstream

import (
	"context"
	"fmt"
)

// Handler answers the calls of upstream's clients. Safe for concurrent use.
type Handler interface {
	// Answer decodes the request of a function, which is body, and appends the response to out. It
	// keeps neither body nor out. It tells peer which versions send such a request (Peer.Narrow), and
	// answers as the version expects that peer returns. An error is for the call as a whole; only the
	// text of a *Refused is told to the client.
	Answer(ctx context.Context, peer *Peer, function uint32, body, out []byte) ([]byte, error)
}

// The codes of Refused, which clients take for codes of an application: they do not close the
// connection.
const (
	CodeUnsupported uint16 = 300 + iota // the function, or the shape of its request, is not served
	CodeUndecodable                     // the request has the right shape and cannot be right
	CodeInternal                        // a fault of the master
	CodeBusy                            // no memory for the request was free in time
	CodeTooLarge                        // the request or the answer is larger than is allowed
	CodeForbidden                       // the role of the client's certificate may not make the call
)

// Refused is the error of a call that is answered with an error of coro_rpc instead of a response.
// The client's connection stays open.
type Refused struct {
	Code uint16 // 300 or more
	// Message is one line that says what was refused, why, and what to do.
	Message string
}

// Error returns the message.
func (r *Refused) Error() string { return fmt.Sprintf("%s (code %d)", r.Message, r.Code) }
