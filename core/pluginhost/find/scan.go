package find

import (
	"errors"
	"fmt"
	"io"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

const (
	// maxBinary bounds the part of a file that is searched for a manifest, in bytes.
	maxBinary = 512 << 20
	// scanWindow is how much of a file is in memory at a time. scanOverlap is how much
	// consecutive windows share: the size of the largest manifest.
	scanWindow  = 4 << 20
	scanOverlap = 256 << 10
	// maxDamaged bounds the windows with data that only looks like a manifest.
	maxDamaged = 8
)

// scanManifest searches a file for its manifest, window by window.
func scanManifest(r io.Reader) (plugin.Manifest, error) {
	buf := make([]byte, 0, scanWindow)
	r = io.LimitReader(r, maxBinary)
	damaged := 0
	result := plugin.ErrNoManifest
	for {
		n, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return plugin.Manifest{}, fmt.Errorf("cannot read it: %w", err)
		}
		m, err := plugin.ScanManifest(buf)
		switch {
		case err == nil:
			return m, nil
		case !errors.Is(err, plugin.ErrNoManifest):
			result = err
			damaged++
		}
		if end || damaged == maxDamaged {
			return plugin.Manifest{}, result
		}
		kept := copy(buf, buf[len(buf)-scanOverlap:])
		buf = buf[:kept]
	}
}
