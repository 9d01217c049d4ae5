package memory_test

import (
	"testing"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/core/metadata/storetest"
)

func TestContract(t *testing.T) {
	s := memory.New(memory.Limits{})
	storetest.Run(t, storetest.Service{Open: func(testing.TB) (metadata.Store, func()) { return s, nil }})
}
