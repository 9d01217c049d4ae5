package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestLogLevelNames: the level may have the name that Python's logging has for it.
func TestLogLevelNames(t *testing.T) {
	for given, want := range map[string]string{
		"DEBUG": "debug", "INFO": "info", "WARNING": "warn", "ERROR": "error", "CRITICAL": "error", "fatal": "error", "trace": "debug",
	} {
		assert.Equal(t, want, mustLoad(t, RoleMetadata, []string{"--log-level", given}, nil, "").Config.Log.Level, given)
	}
	_, err := load(t, RoleMetadata, []string{"--log-level", "loud"}, nil, "")
	assert.ErrorContains(t, err, "debug, info, warn, error")
}
