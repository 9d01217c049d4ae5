package server

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/internal/framed"
)

// messageStream is what gRPC's own parser of messages reads. gRPC lets a client send no more than
// 64 KiB of a message before the server reads it, and reads it whole when the method asks for it. The
// methods here read it themselves, so that they know its size before.
type messageStream interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
}

// messageHeader is the size of what precedes a message: whether it is compressed, and its length.
const messageHeader = 5

// counted returns the description of a service whose large requests over gRPC wait for a budget. A
// request waits for Options.CallTimeout at most, and then has to arrive within framed.Arrival.
func counted(desc grpc.ServiceDesc, b framed.Budget, o Options) *grpc.ServiceDesc {
	desc.Methods = slices.Clone(desc.Methods)
	for i := range desc.Methods {
		call := desc.Methods[i].Handler
		desc.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error, chain grpc.UnaryServerInterceptor) (any, error) {
			s, ok := grpc.ServerTransportStreamFromContext(ctx).(messageStream)
			if !ok {
				return call(srv, ctx, decode, chain)
			}
			r := receiver{ctx: ctx, stream: s, budget: b, wait: o.CallTimeout, stall: o.HandshakeTimeout}
			defer r.free()
			return call(srv, ctx, r.decode, chain)
		}
	}
	return &desc
}

// receiver receives the request of one call.
type receiver struct {
	ctx    context.Context
	stream messageStream
	budget framed.Budget
	wait   time.Duration
	stall  time.Duration
	held   int // bytes of the request that the budget holds memory for
}

func (r *receiver) free() {
	if r.held > 0 {
		r.budget.Release(r.held)
	}
}

// decode reads the request into a message.
func (r *receiver) decode(into any) error {
	m, ok := into.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "%T is not a message", into)
	}
	var header [messageHeader]byte
	if err := r.stream.ReadMessageHeader(header[:]); err != nil {
		return unreadable(err)
	}
	size := binary.BigEndian.Uint32(header[1:])
	switch {
	case header[0] != 0:
		return status.Error(codes.Unimplemented, "the request is compressed, which this server does not take")
	case size > rpc.MaxMessageSize:
		return status.Errorf(codes.ResourceExhausted, "the request has %d bytes, at most %d are allowed", size, rpc.MaxMessageSize)
	}
	data, err := r.read(int(size))
	if err != nil {
		return err
	}
	defer data.Free()
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	if err := (codec{}).Decode(b.ReadOnlyData(), m); err != nil {
		return status.Errorf(codes.InvalidArgument, "the request cannot be decoded: %v", err)
	}
	return nil
}

// read returns the bytes of the request, a large one once the budget has memory for it.
func (r *receiver) read(size int) (mem.BufferSlice, error) {
	if size <= framed.Uncounted {
		data, err := r.stream.Read(size)
		return data, unreadable(err)
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.wait)
	defer cancel()
	if err := r.budget.Acquire(ctx, size); err != nil {
		return nil, err
	}
	r.held = size
	type result struct {
		data mem.BufferSlice
		err  error
	}
	got := make(chan result, 1)
	go func() { // It ends with the call at the latest.
		data, err := r.stream.Read(size)
		got <- result{data, err}
	}()
	late := time.NewTimer(framed.Arrival(size, r.stall))
	defer late.Stop()
	select {
	case g := <-got:
		return g.data, unreadable(g.err)
	case <-late.C:
		return nil, status.Errorf(codes.DeadlineExceeded, "the request has %d bytes, which did not arrive in time", size)
	}
}

// unreadable returns the status of a request that ended before it was read, nil for none.
func unreadable(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Errorf(codes.Internal, "the request cannot be read: %v", err)
}
