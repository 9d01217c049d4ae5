package hatest_test

import (
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/hatest"
)

func TestMemoryConforms(t *testing.T) {
	hatest.Run(t, func(*testing.T) func() ha.Backend {
		m := hatest.NewMemory(2 * time.Second)
		return func() ha.Backend { return m.Open() }
	})
}
