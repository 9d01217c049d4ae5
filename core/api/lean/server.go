package lean

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mooncake-go/mooncake/core/internal/framed"
)

// Server answers the unary methods of services that are described for gRPC. Make one with
// NewServer, register services, then register it for foreign.Lean with a framed.Server. It implements
// framed.Protocol. Safe for concurrent use.
type Server struct {
	// Codec of requests and responses. Set it before the first connection; nil is package
	// proto.
	Codec Codec

	limits  framed.Limits
	chain   grpc.UnaryServerInterceptor
	methods map[string]*method
}

var (
	_ grpc.ServiceRegistrar = (*Server)(nil)
	_ framed.Protocol       = (*Server)(nil)
)

// method is a method of a service.
type method struct {
	name string
	impl any
	call func(srv any, ctx context.Context, dec func(any) error, chain grpc.UnaryServerInterceptor) (any, error)
}

// NewServer makes a server whose calls go through the interceptors, the first one outermost.
func NewServer(l framed.Limits, chain ...grpc.UnaryServerInterceptor) *Server {
	s := &Server{Codec: plain{}, limits: l.WithDefaults(), methods: map[string]*method{}}
	for i := len(chain) - 1; i >= 0; i-- {
		s.chain = chained(chain[i], s.chain)
	}
	return s
}

// chained calls outer around inner, which is nil for none.
func chained(outer, inner grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	if inner == nil {
		return outer
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return outer(ctx, req, info, func(ctx context.Context, req any) (any, error) {
			return inner(ctx, req, info, handler)
		})
	}
}

// RegisterService implements grpc.ServiceRegistrar. Methods with streams are left out.
// Before the first connection.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	for i := range desc.Methods {
		m := &desc.Methods[i]
		name := "/" + desc.ServiceName + "/" + m.MethodName
		s.methods[name] = &method{name: name, impl: impl, call: m.Handler}
	}
}

// Limits implements framed.Protocol.
func (s *Server) Limits() framed.Limits { return s.limits }

// Shape implements framed.Protocol.
func (s *Server) Shape() framed.Shape {
	return framed.Shape{Header: lengthSize + headSize, Buffer: readBuffer, Unique: true}
}

// Parse implements framed.Protocol.
func (s *Server) Parse(b []byte, limit int) (framed.Frame, error) {
	h, rest, err := parseHead(b, limit)
	switch {
	case err != nil:
		return framed.Frame{}, err
	case h.kind == kindGiveUp:
		return framed.Frame{Number: h.call, GiveUp: true}, nil
	case h.kind != kindCall:
		return framed.Frame{}, errFrame
	}
	return framed.Frame{Number: h.call, Function: uint32(h.small), Wait: time.Duration(h.millis) * time.Millisecond, Body: rest}, nil
}

// Open implements framed.Protocol.
func (s *Server) Open(net.Addr) framed.Client { return caller{s} }

// caller is a client at the other end of a connection. It implements framed.Client.
type caller struct{ s *Server }

// Greet exchanges the prefaces.
func (c caller) Greet(over framed.Wire) (known bool, err error) {
	got, err := over.Read(len(preface))
	if err != nil {
		return false, err
	}
	if string(got) != preface {
		return false, errFrame
	}
	return true, over.Send([]byte(preface))
}

// Asked implements framed.Client.
func (c caller) Asked() {}

// Bye implements framed.Client.
func (c caller) Bye() []byte { return bare(head{kind: kindBye}) }

// Last implements framed.Client.
func (c caller) Last(error) []byte { return nil }

// Left implements framed.Client.
func (c caller) Left(bool) {}

// Answer implements framed.Client. A panic is the interceptors' to catch.
func (c caller) Answer(j *framed.Call) {
	resp, err := c.s.invoke(j)
	c.s.encode(j, resp, err)
}

// Refuse implements framed.Client.
func (c caller) Refuse(j *framed.Call, why error) { c.s.encode(j, nil, why) }

// invoke calls the method, whose name precedes the request.
func (s *Server) invoke(j *framed.Call) (any, error) {
	name, request := j.In[:j.Function], j.In[j.Function:]
	m := s.methods[string(name)]
	if m == nil {
		return nil, status.Errorf(codes.Unimplemented, "unknown method %q", name)
	}
	decode := func(into any) error {
		message, ok := into.(proto.Message)
		if !ok {
			return status.Errorf(codes.Internal, "%T is not a message", into)
		}
		if err := s.Codec.Decode(request, message); err != nil {
			return status.Errorf(codes.InvalidArgument, "the request cannot be decoded: %v", err)
		}
		return nil
	}
	return m.call(m.impl, j.Context(), decode, s.chain)
}

// encode makes the frame of the answer.
func (s *Server) encode(j *framed.Call, resp any, err error) {
	if err == nil {
		if err = s.encodeOK(j, resp); err == nil {
			return
		}
	}
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	code := st.Code()
	if code == codes.OK || code > codes.Unauthenticated {
		code = codes.Unknown
	}
	j.Out = begin(j.Out[:0], head{call: j.Number, kind: kindAnswer, small: uint8(code)})
	if full, err := (proto.MarshalOptions{}).MarshalAppend(j.Out, st.Proto()); err == nil && len(full) <= s.limits.Frame {
		j.Out = full
	}
	seal(j.Out)
}

func (s *Server) encodeOK(j *framed.Call, resp any) error {
	message, ok := resp.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "the method answered with a %T", resp)
	}
	j.Out = begin(j.Out[:0], head{call: j.Number, kind: kindAnswer})
	full, err := s.Codec.Append(j.Out, message)
	if err != nil {
		return status.Errorf(codes.Internal, "the answer cannot be encoded: %v", err)
	}
	j.Out = full
	if len(full) > s.limits.Frame {
		return status.Errorf(codes.ResourceExhausted, "the answer has %d bytes, at most %d are allowed", len(full), s.limits.Frame)
	}
	seal(full)
	return nil
}
