package access

import (
	"context"
	"net/http"
	"path"
	"strings"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/core/config"
)

// Handle registers a handler of an HTTP port, whose pattern the table has for the door.
func (k *Control) Handle(mux *http.ServeMux, door config.Door, pattern string, h http.HandlerFunc) {
	c := Find(string(door), pattern)
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := k.Check(r.Context(), c); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		h(w, r)
	})
}

// Over has a call of the table made before each request for what is below root.
func (k *Control) Over(c *Call, root string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(path.Clean(r.URL.Path)+"/", root) {
			if err := k.Check(r.Context(), c); err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
		}
		h.ServeHTTP(w, r)
	})
}

// Service returns the description of a gRPC service whose calls only those make whom the table allows them.
// answer makes a status of a refusal.
func (k *Control) Service(desc grpc.ServiceDesc, answer func(error) error) *grpc.ServiceDesc {
	methods := make([]grpc.MethodDesc, len(desc.Methods))
	for i, m := range desc.Methods {
		c := Find(desc.ServiceName, m.MethodName)
		methods[i] = grpc.MethodDesc{MethodName: m.MethodName, Handler: func(srv any, ctx context.Context, decode func(any) error, chain grpc.UnaryServerInterceptor) (any, error) {
			if err := k.Check(ctx, c); err != nil {
				return nil, answer(err)
			}
			return m.Handler(srv, ctx, decode, chain)
		}}
	}
	desc.Methods, desc.Streams = methods, nil
	return &desc
}
