package reference_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/reference"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	n := reference.NewNetwork()
	transporttest.Run(t, n.Factory(), n.Options()...)
}
