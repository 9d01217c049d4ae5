package local

import (
	"time"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/store/client"
)

// FromConfig returns the settings of a client that attaches to the service of the configuration.
func FromConfig(s config.Store) Config {
	c := DefaultConfig(SocketOf(s))
	c.Any = s.LocalAccess == "any"
	c.LocalBufferSize = uint64(s.LocalBufferSize)
	c.CallTimeout = LongestCall(s)
	return c
}

// SocketOf returns the socket at which processes of this host attach.
func SocketOf(s config.Store) string {
	if s.LocalSocket != "" {
		return s.LocalSocket
	}
	return SocketOfPort(s.Port)
}

// LongestCall bounds a call through the service: its transfers, and the calls to the master around
// them. Clients notice a service that hangs much earlier, by its pings.
func LongestCall(s config.Store) time.Duration {
	if s.TransferTimeout <= 0 {
		return client.LongestPut + s.RPCTimeout
	}
	return s.TransferTimeout + s.RPCTimeout
}
