package reference_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/tier/tiertest"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/reference"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) { tiertest.Run(t, reference.Factory()) }

func TestConformanceOfOneThatSurvives(t *testing.T) {
	tiertest.Run(t, reference.Surviving(), reference.Options()...)
}
