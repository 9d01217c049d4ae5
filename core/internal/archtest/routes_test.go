package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// muxes are the files of core that may register routes of an http.ServeMux and services of gRPC without
// access.Control, which asks the table of calls, and why.
var muxes = map[string]string{
	"core/internal/access/servers.go":      "access.Control itself",
	"core/internal/profiling/profiling.go": "ports.HTTP asks before",
	"core/api/introspect/handler.go":       "a unix socket, whose peers are checked by user",
	"core/api/introspect/server.go":        "a unix socket, whose peers are checked by user",
	"core/store/local/serve/server.go":     "a unix socket, whose peers are checked by user",
}

// TestEveryRouteIsInTheTable fails for a route or a service that any peer may use: a new one goes through
// access.Control, with a row of its table.
func TestEveryRouteIsInTheTable(t *testing.T) {
	used := map[string]bool{}
	walk(t, func(file string, f *ast.File) {
		for _, call := range registers(f) {
			if muxes[file] == "" {
				t.Errorf("%s calls %s; use access.Control with a row of the table of calls, or say in muxes why not", file, call)
			} else {
				used[file] = true
			}
		}
	})
	for file := range muxes {
		assert.True(t, used[file], "%s registers no route any more", file)
	}
	require.Equal(t, []string{"mux.HandleFunc", "http.Handle", "localv1.RegisterThingServer"}, registers(parse(t, `package a
func b() {
	mux.HandleFunc("/", h)
	http.Handle("/", h)
	k.Handle(mux, door, "/", h)
	localv1.RegisterThingServer(g, s)
	g.RegisterService(k.Service(desc, f), s)
}`)))
}

func parse(t *testing.T, text string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "a.go", text, parser.SkipObjectResolution)
	require.NoError(t, err)
	return f
}

// registers returns the calls that register a route or a service.
func registers(f *ast.File) (out []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		name := sel.Sel.Name
		of := "?"
		switch x := sel.X.(type) {
		case *ast.Ident:
			of = x.Name
		case *ast.SelectorExpr:
			of = x.Sel.Name
		}
		service := strings.HasPrefix(name, "Register") && strings.HasSuffix(name, "Server")
		if name == "HandleFunc" || name == "Handle" && len(call.Args) == 2 || service {
			out = append(out, of+"."+name)
		}
		return true
	})
	return out
}
