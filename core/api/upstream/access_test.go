package upstream

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/internal/access"
)

func TestTheTableOfCallsHasEveryFunction(t *testing.T) {
	known := map[*access.Call]bool{}
	for _, f := range calls.Functions {
		c := callOf(f.Name())
		assert.NotNil(t, c, "access lacks %s", f.Name())
		known[c] = true
	}
	for _, c := range access.Table() {
		if c.Service == access.UpstreamService {
			assert.True(t, known[c], "access has %s, which is no function any more", c.Name)
		}
	}
}
