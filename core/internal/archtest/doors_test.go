package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// listeners are the files of core that may open a socket without ports.Listen, which protects it, and why.
var listeners = map[string]string{
	"core/internal/ports/ports.go":         "it opens the others' sockets",
	"core/app/elected.go":                  "a port that is closed again before it takes a connection",
	"core/api/rest/storeservice/module.go": "a port that is closed again before it takes a connection",
	"core/transfer/assembly/name.go":       "a port that is reserved and takes no connection",
	"core/ha/embedded/embedded.go":         "etcd's own TLS; provideEmbedded asks doors.Allow",
	"core/metadata/p2p/port.go":            "plaintext; the engine asks doors.Allow",
	"core/master/kvevents/config.go":       "plaintext; the module asks doors.Allow",
	"core/bench/cluster/ports.go":          "a port that is closed again before it takes a connection",
	"core/bench/micro/stream.go":           "loopback, for a benchmark in one process",
	"core/api/introspect/listen.go":        "a unix socket, whose peers are checked by user",
	"core/store/local/serve/server.go":     "a unix socket, whose peers are checked by user",
	"core/pluginhost/launch/byhand.go":     "a unix socket in a folder of this user only, and never with a security mode",
	"core/metadata/storetest/faults.go":    "for tests",
	"core/metadata/central/directory.go":   "p2p.Listen",
}

// TestEveryListenerHasADoor fails for a socket that no setting protects: a new listener goes through
// ports.Listen with its config.Door.
func TestEveryListenerHasADoor(t *testing.T) {
	used := map[string]bool{}
	walk(t, func(file string, f *ast.File) {
		for _, call := range opens(f) {
			if listeners[file] == "" {
				t.Errorf("%s calls %s; use ports.Listen with a door, or say in listeners why not", file, call)
			}
			used[file] = true
		}
	})
	for file := range listeners {
		assert.True(t, used[file], "%s opens no socket any more", file)
	}
}

// opens returns the calls of a file that open a socket that listens.
func opens(f *ast.File) (calls []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		s, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		of := ""
		if x, ok := s.X.(*ast.Ident); ok {
			of = x.Name
		}
		switch s.Sel.Name {
		case "Listen", "ListenPacket", "ListenTCP", "ListenUDP", "ListenUnix", "Probe":
			// Listen(function) opens no socket, and Probe of other packages asks a peer.
			if of == "ports" && s.Sel.Name == "Listen" || of != "ports" && s.Sel.Name == "Probe" || len(call.Args) < 2 {
				return true
			}
			calls = append(calls, of+"."+s.Sel.Name)
		}
		return true
	})
	return calls
}

func TestListenersAreFound(t *testing.T) {
	for text, want := range map[string]int{
		`net.Listen("tcp", a)`: 1, `lc.Listen(ctx, "tcp", a)`: 1, `(&net.ListenConfig{}).ListenPacket(ctx, "udp", a)`: 1, `ports.Probe(ctx, "a", h, 1, "f")`: 1,
		`ports.Listen(ctx, d, config.DoorRPC, "a", h, 1, "f")`: 0, `tasks.Listen(f)`: 0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() { "+text+" }", 0)
		require.NoError(t, err)
		assert.Len(t, opens(f), want, text)
	}
}
