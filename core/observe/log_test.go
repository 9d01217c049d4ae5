package observe_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/observe"
)

func TestLevelAndFormat(t *testing.T) {
	var out bytes.Buffer
	log, err := observe.NewLogger(&out, "WARN", "json")
	require.NoError(t, err)
	log.Info("hidden")
	log.Warn("shown", "segment", "a")
	assert.NotContains(t, out.String(), "hidden")
	assert.Contains(t, out.String(), `"msg":"shown","segment":"a"`)

	_, err = observe.NewLogger(&out, "loud", "text")
	assert.ErrorContains(t, err, `"loud" is not debug, info, warn or error`)
	_, err = observe.NewLogger(&out, "", "xml")
	assert.ErrorContains(t, err, `"xml" is not text or json`)
}
