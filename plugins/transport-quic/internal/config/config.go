// Package config holds the settings of the QUIC transport.
package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// Config holds the settings of the QUIC transport. Sizes are bytes.
type Config struct {
	CA            string          `json:"ca" doc:"PEM file with the certificates of the authorities that peers must be signed by; 'mooncake certs' makes one; without it the files of section security count, if security.mode is not off"`
	Cert          string          `json:"cert" doc:"PEM file with the certificate of this node and what leads to the authority"`
	Key           string          `json:"key" doc:"PEM file with the private key of this node"`
	PeerNames     []string        `json:"peer_names" length:"..64" doc:"names or IP addresses, one of which a peer's certificate must be for, '*.example.org' for one label; empty: any certificate of the authority that is for the address dialled"`
	InsecureDev   bool            `json:"insecure_dev" doc:"for trials: a certificate made at start, and the identity of peers is not verified"`
	ExpiryWarning plugin.Duration `json:"expiry_warning" default:"168h" range:"0s.." doc:"warn so long before the certificate of this node ends"`
	ReloadEvery   plugin.Duration `json:"reload_every" default:"10s" range:"1ms..24h" doc:"look so often whether the three files changed"`
	transportkit.Addresses
	ConnectionsPerPeer    int   `json:"connections_per_peer" default:"8" range:"1..64" doc:"each has a congestion window of its own, so that a lost packet slows down one of them"`
	ConnectionsLossy      int   `json:"connections_lossy" default:"32" range:"0..64" doc:"so many instead, where that is more, while over 0.2 % of the packets are lost; each takes its share of the link, so lower it on links that others need too"`
	StreamsPerConnection  int   `json:"streams_per_connection" default:"32" range:"1..256" doc:"pieces in flight on one connection"`
	MaxConnections        int   `json:"max_connections" default:"4096" range:"1..65536" doc:"accepted connections in all"`
	MaxConnectionsPerPeer int   `json:"max_connections_per_peer" default:"256" range:"1..65536" doc:"accepted connections of one address with one certificate"`
	SliceBytes            int   `json:"slice_bytes" default:"128KiB" range:"4KiB..64MiB" doc:"an operation is moved in pieces of this size, each a stream"`
	MaxInflightBytes      int64 `json:"max_inflight_bytes" default:"128MiB" range:"4KiB..1PiB" doc:"bytes in flight on one path before Submit accepts no more"`
	MaxInflightOps        int   `json:"max_inflight_ops" default:"4096" range:"1..1048576" doc:"operations not yet reaped on one path before Submit accepts no more"`
	// OpTimeout bounds an operation without a deadline of its own, and how long this side works on
	// one request of a peer.
	OpTimeout        plugin.Duration `json:"op_timeout" default:"30s" range:"1ms..24h" doc:"limit of an operation without a deadline of its own"`
	DialTimeout      plugin.Duration `json:"dial_timeout" default:"5s" range:"1ms..24h" doc:"limit of one attempt to connect, and of waiting for a peer that cannot be reached"`
	StallTimeout     plugin.Duration `json:"stall_timeout" default:"10s" range:"5s..24h" doc:"a connection whose peer sends nothing for this long is closed, and so is a request without progress; a third of it is the keep-alive; at least 5s"`
	IdleTimeout      plugin.Duration `json:"idle_timeout" default:"5m" range:"1ms..24h" doc:"a connection without work for this long is closed"`
	StreamWindow     int             `json:"stream_window" default:"8MiB" range:"64KiB..1GiB" doc:"bytes that a peer may send on one stream before they are taken"`
	ConnectionWindow int             `json:"connection_window" default:"64MiB" range:"64KiB..1GiB" doc:"bytes that a peer may send on one connection before they are taken; bandwidth times round trip of a connection must fit"`
	SocketBuffer     int             `json:"socket_buffer" default:"8MiB" range:"0..1GiB" doc:"send and receive buffer of each UDP socket; net.core.rmem_max and wmem_max bound it; 0 for the least that quic-go asks for"`
	PacketSize       int             `json:"packet_size" range:"0..1452" doc:"first size of a datagram's payload, which discovery then raises to what the path takes; 0 for 1280"`
}

// Default returns the defaults, which have no certificates: a transport made from them does not
// start.
func Default() *Config { return plugin.Defaults[Config]() }

// Settings is a Config with its durations in the form that the rest of the package uses.
type Settings struct {
	Config
	OpTimeout, DialTimeout, StallTimeout, IdleTimeout, ExpiryWarning, ReloadEvery time.Duration
}

// Of returns the settings of a configuration.
func Of(c Config) Settings {
	return Settings{
		Config:        c,
		OpTimeout:     time.Duration(c.OpTimeout),
		DialTimeout:   time.Duration(c.DialTimeout),
		StallTimeout:  time.Duration(c.StallTimeout),
		IdleTimeout:   time.Duration(c.IdleTimeout),
		ExpiryWarning: time.Duration(c.ExpiryWarning),
		ReloadEvery:   time.Duration(c.ReloadEvery),
	}
}

// Validate implements plugin.Config.
func (c *Config) Validate() error {
	if c.PacketSize != 0 && (c.PacketSize < 1200 || c.PacketSize > 1452) {
		return fmt.Errorf("packet_size is %d, must be 1200 to 1452, or 0", c.PacketSize)
	}
	if err := c.Addresses.Validate(); err != nil {
		return err
	}
	return c.validateTrust()
}

// validateTrust checks that the settings of certificates make sense together. The files are looked
// at when the transport starts.
func (c *Config) validateTrust() error {
	given, missing := []string(nil), []string(nil)
	for _, f := range []struct{ name, path string }{{"ca", c.CA}, {"cert", c.Cert}, {"key", c.Key}} {
		if f.path == "" {
			missing = append(missing, f.name)
		} else {
			given = append(given, f.name)
		}
	}
	if len(given) > 0 && len(missing) > 0 {
		return fmt.Errorf("%s is set and %s is not; all of ca, cert and key are needed", strings.Join(given, " and "), strings.Join(missing, " and "))
	}
	if c.InsecureDev && (len(given) > 0 || len(c.PeerNames) > 0) {
		return fmt.Errorf("insecure_dev does not verify the identity of peers; it cannot be combined with ca, cert, key or peer_names")
	}
	for _, n := range c.PeerNames {
		if bare := strings.TrimPrefix(n, "*."); bare == "" || strings.ContainsAny(bare, "* \t/") {
			return fmt.Errorf("peer_names %q is not a host name, an IP address or '*.' and a domain", n)
		}
	}
	return nil
}
