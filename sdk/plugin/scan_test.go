package plugin

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestScanGivesUpOnAProgramFullOfDamagedManifests(t *testing.T) {
	hostile := []byte(strings.Repeat(string(manifestMark())+"[", 10000))
	decodes, bytes := 0, 0
	count := func(text []byte) (Manifest, error) {
		decodes++
		bytes += len(text)
		return decodeManifest(text)
	}
	none := func(Manifest) bool { t.Error("there is no manifest"); return true }
	err := scan(hostile, count, none)
	assert.ErrorContains(t, err, "more than 16 damaged")
	assert.False(t, errors.Is(err, ErrNoManifest))
	assert.Equal(t, maxDamaged, decodes)
	assert.LessOrEqual(t, bytes, maxDamaged*maxManifest)

	_, err = ScanManifest(hostile)
	assert.ErrorContains(t, err, "more than 16 damaged")
}
