package server

import (
	"net"

	"github.com/mooncake-go/mooncake/core/internal/foreign"
)

// turnedAway returns what happens to connections that speak nothing that is served: a line in the log, a count, and an answer where their protocol has one.
func turnedAway(o Options) func(net.Addr, foreign.Protocol, []byte) []byte {
	log := foreign.NewLog(o.Logger, "the master's RPC port", map[foreign.Protocol]string{
		foreign.CoroRPC:  "set upstream_clients to serve it, or install this project's Python package or client there",
		foreign.CoroRDMA: "unset MC_RPC_PROTOCOL there, so that it calls over TCP",
		foreign.HTTP:     "the admin API and the metrics are on metrics_port (9003), the metadata service is on http_metadata_server_port (8080)",
		foreign.TLS:      "security.mode is off here, set it in all processes of the pool; or connect without TLS, or through a proxy that ends it",
		foreign.Redis:    "give it the address of a Redis server",
		foreign.Unknown:  "only gRPC, this project's clients and those of upstream are served here; see what runs at the remote address",
	})
	return func(remote net.Addr, p foreign.Protocol, first []byte) []byte {
		log.Report(remote, p, first)
		if o.Foreign != nil {
			o.Foreign(p.String())
		}
		return foreign.Refusal(p, first, refusals[p])
	}
}

// refusals are what clients are told that understand an error of their own protocol. An error
// of coro_rpc holds at most 255 bytes.
var refusals = map[foreign.Protocol]string{
	foreign.CoroRPC: "this is a master of Mooncake in Go whose upstream_clients is off: set it there, or install its Python package here",
	foreign.HTTP: "this is the RPC port of a Mooncake master, not HTTP: the admin API and the metrics are on metrics_port (9003), " +
		"the metadata service is on http_metadata_server_port (8080)",
	foreign.Redis: "this is the RPC port of a Mooncake master, not Redis",
}
