package quota

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/metadata/storetest/etcdserver"
)

func TestMain(m *testing.M) {
	etcdserver.Main()
	goleak.VerifyTestMain(m)
}
