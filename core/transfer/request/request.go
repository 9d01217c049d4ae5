// Package request defines the requests to a transfer engine, and their states and results.
package request

import (
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// ErrQuarantined is in the chain of the error of a request whose memory may still be
// touched: the local buffer of a read, the peer's range of a write. It must not be used
// for anything else.
var ErrQuarantined = errors.New("the memory may still be touched by the failed operation")

// What errors.Is finds in the errors of an Engine.
var (
	// ErrTimeout: the deadline of the request passed.
	ErrTimeout = errors.New("the deadline passed")
	// ErrCanceled: the batch was cancelled.
	ErrCanceled = errors.New("the batch was cancelled")
	// ErrTooManyRequests: the batch has no space for the request, or the engine for the batch.
	ErrTooManyRequests = errors.New("too many requests")
	// ErrBatchBusy: a request of the batch is not in a terminal state.
	ErrBatchBusy = errors.New("the batch is busy")
	// ErrStaleBatch: no batch of this engine has the id; it was freed, or is another's.
	ErrStaleBatch = errors.New("no such batch")
)

// Request asks for one range of bytes to be moved.
type Request struct {
	Kind transport.OpKind
	// Local is this side's memory. It must not be changed (a write) or used (a read) until
	// Transfer returned or the request's state is terminal.
	Local []byte
	// Peer is the name under which the other side published itself.
	Peer string
	// Addr is the first byte in the peer's address space. [Addr, Addr+len(Local)) lies in
	// memory that the peer registered.
	Addr uint64
	// Deadline ends the request; zero means Config.Timeout from now. The context's deadline
	// counts as well.
	Deadline time.Time
	// Hasty marks a write for which the caller has another place: the engine gives up a peer whose
	// process stands still as soon as the transport can tell. See transport.Op.
	Hasty bool
	// Sum asks for the checksum of the bytes (CRC-32C) where moving them gives it: see
	// Result.Summed.
	Sum bool
}

// Result is how a request ended.
type Result struct {
	// Err is nil when all bytes are in place; else an unknown subset of them was moved. It
	// carries an errs.Code and an errs.Class.
	Err error
	// Done is when the last byte arrived or the request was given up.
	Done time.Time
	// Sum is the checksum of the bytes that were stored, where Summed says so: the request
	// asked for it, all bytes are in place, and the transport or the copy computed it while moving them.
	Sum    uint32
	Summed bool
}

// Validate returns InvalidParams for an impossible request.
func (r *Request) Validate() error {
	n := uint64(len(r.Local))
	switch {
	case r.Kind != transport.Read && r.Kind != transport.Write:
		return errs.New(errs.InvalidParams, "transfer", "the direction %d is neither read nor write", r.Kind)
	case r.Peer == "":
		return errs.New(errs.InvalidParams, "transfer", "the request names no peer")
	case r.Addr+n < r.Addr:
		return errs.New(errs.InvalidParams, "transfer", "%d bytes at address %#x run over the end of the address space", n, r.Addr)
	}
	return nil
}
