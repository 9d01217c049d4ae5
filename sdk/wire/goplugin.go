package wire

import (
	"context"
	"errors"
	"slices"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// PluginName is the name under which a plugin process dispenses its one plugin.
const PluginName = "plugin"

// LifelineEnv names the environment variable that tells a plugin process the number of
// the file descriptor whose end of file means that the host is gone.
const LifelineEnv = "MOONCAKE_PLUGIN_LIFELINE_FD"

// DataEnv names the environment variable that tells the process of a transport or a tier the number
// of the file descriptor over which descriptors of memory, rings and bells come: one end of
// shm.Pair. A host that did not start the process names a socket instead, by its absolute path: the process
// connects to it and gets the descriptor with the first message. Other kinds do not have it.
const DataEnv = "MOONCAKE_PLUGIN_DATA_FD"

// PathEnv names the environment variable that tells a plugin process the path of the file
// that it was made from. It runs as a copy in memory, so that neither /proc/self/exe nor,
// for a script, the first argument say it.
const PathEnv = "MOONCAKE_PLUGIN_PATH"

// LogLevelEnv names the environment variable that tells a plugin process which log
// records its host wants: debug, info, warn or error.
const LogLevelEnv = "MOONCAKE_PLUGIN_LOG_LEVEL"

// Handshake returns what host and plugin must agree on before anything else. It keeps a
// plugin from being run by hand; it is no security measure.
func Handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{
		MagicCookieKey:   "MOONCAKE_PLUGIN_COOKIE",
		MagicCookieValue: "3d6b0f1c-mooncake-plugin",
	}
}

// ServerPlugins maps the contract versions that both the manifest and the kind name onto the
// server, for go-plugin's version negotiation.
func ServerPlugins(s *Server) map[int]goplugin.PluginSet {
	return versions(s.factory.Manifest().API, s.kind.API, &glue{server: s})
}

// ClientPlugins is the host's side of ServerPlugins. Dispense(PluginName) returns the Client
// of the kind.
func ClientPlugins(k Descriptor, apis []uint, o ClientOptions) map[int]goplugin.PluginSet {
	return versions(apis, apis, &glue{kind: k, client: o})
}

func versions(a, b []uint, p goplugin.Plugin) map[int]goplugin.PluginSet {
	out := map[int]goplugin.PluginSet{}
	for _, v := range a {
		if slices.Contains(b, v) {
			out[int(v)] = goplugin.PluginSet{PluginName: p}
		}
	}
	return out
}

// GRPCDialOptions are the limits that a connection to a plugin needs.
func GRPCDialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithDefaultCallOptions(
		grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage))}
}

// glue fits both sides into go-plugin.
type glue struct {
	goplugin.NetRPCUnsupportedPlugin
	server *Server
	kind   Descriptor
	client ClientOptions
}

func (g *glue) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	if g.server == nil {
		return errors.New("the host's side serves nothing")
	}
	g.server.Register(s)
	return nil
}

func (g *glue) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return g.kind.client(conn, g.client), nil
}
