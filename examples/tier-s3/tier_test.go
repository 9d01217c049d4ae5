package s3_test

import (
	"testing"

	s3 "example.com/tier-s3"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest"
)

// options give each tier of the suite a prefix of its own, and access to the server.
func options(s *server) []tiertest.Option {
	return []tiertest.Option{
		tiertest.WithConfig(s.configs),
		tiertest.WithStorage(func(_ conformance.TB, c plugin.Config) tiertest.Storage {
			return tiertest.Storage{
				Damage: func(value []byte) bool { return s.damage(c.(*s3.Config).Prefix, value) },
				Hang: func() func() {
					s.freeze()
					return s.thaw
				},
				Fail: func() func() {
					s.kill()
					return s.revive
				},
				Crash: func() {
					s.kill()
					s.revive()
				},
			}
		}),
	}
}

// The suite holds the tier to the contract, in process and through the wire.
func TestConformance(t *testing.T) { tiertest.Run(t, s3.Factory(), options(newServer(t))...) }

func TestConformanceOverTLS(t *testing.T) {
	tiertest.Run(t, s3.Factory(), options(newServer(t, tlsFlags...))...)
}

func TestConformanceThroughTheWire(t *testing.T) {
	tiertest.Run(t, tiertest.ThroughWire(t, s3.Factory(), tiertest.WireOptions{}),
		append(options(newServer(t)), tiertest.WithSharedMemory(tiertest.SealedMemory))...)
}
