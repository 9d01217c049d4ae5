// Package testplugin builds the plugin programs that the tests of package pluginhost run.
package testplugin

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Build compiles the plugins of the kinds, evict, alloc and tier, into dir, under the names
// that discovery looks for.
func Build(ctx context.Context, dir string, kinds ...string) error {
	_, here, _, _ := runtime.Caller(0)
	for _, kind := range kinds {
		out := filepath.Join(dir, "mooncake-plugin-"+kind+"-faulty")
		cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", out, "./"+kind)
		cmd.Dir = filepath.Dir(here)
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", out, err, text)
		}
		if err := os.Chmod(out, 0o755); err != nil {
			return err
		}
	}
	return nil
}
