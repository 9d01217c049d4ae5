package arena_test

import (
	"testing"

	"go.uber.org/goleak"

	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	"github.com/mooncake-go/mooncake/sdk/conformance/alloctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) { alloctest.Run(t, arena.Factory()) }
