package prefix

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/conformance/evicttest"
	"github.com/mooncake-go/mooncake/sdk/conformance/wiretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) { evicttest.Run(t, Factory()) }

func TestConformanceThroughTheWire(t *testing.T) {
	evicttest.Run(t, wiretest.Evict(t, Factory()))
}

func BenchmarkPrefix(b *testing.B) { evicttest.Bench(b, Factory()) }
