package competitors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The published wheel of the reference implementation.
const (
	UpstreamPackage = "mooncake-transfer-engine-non-cuda"
	UpstreamVersion = "0.3.13.post1"
	UpstreamName    = "upstream " + UpstreamVersion
	// UpstreamQuoted names figures of it that other people measured elsewhere.
	UpstreamQuoted = UpstreamName + ", quoted: measured on another 2-core machine, not in this run"
)

// ErrNoUpstream is about the wheel not being there.
var ErrNoUpstream = errors.New("the wheel is not installed")

// upstreamReason is why there is no wheel, empty where there is one.
func (e *Env) upstreamReason() string {
	if _, err := os.Stat(e.upstreamFile("store.so")); err == nil {
		return ""
	}
	why, err := os.ReadFile(filepath.Join(e.Upstream, "MISSING"))
	if err != nil || len(strings.TrimSpace(string(why))) == 0 {
		return fmt.Sprintf("%s %s is not installed in %s; run: make bench-peers-setup", UpstreamPackage, UpstreamVersion, filepath.Base(e.Upstream))
	}
	return lastLine(string(why))
}

// upstreamFile is the path of a file of the wheel's package. The programs of its bin folder are
// scripts that start these, and would be measured, too.
func (e *Env) upstreamFile(name string) string {
	found, _ := filepath.Glob(filepath.Join(e.Upstream, "lib", "python*", "site-packages", "mooncake", name)) //nolint:errcheck // only about the pattern
	if len(found) == 0 {
		return filepath.Join(e.Upstream, "lib", name)
	}
	return found[0]
}

// UpstreamMaster starts the wheel's master. ErrNoUpstream where there is no wheel.
func (s *Scope) UpstreamMaster(ctx context.Context, cpu int) (*Master, error) {
	if why := s.env.upstreamReason(); why != "" {
		return nil, fmt.Errorf("%w: %s", ErrNoUpstream, why)
	}
	return s.master(ctx, "upstream's master", cpu, s.env.upstreamFile("mooncake_master"), "--metrics_host=127.0.0.1")
}

// UpstreamPython starts a client of the wheel's package, which contributes segment bytes.
func (s *Scope) UpstreamPython(ctx context.Context, m *Master, cpu, segment int) (*Driver, error) {
	return s.python(ctx, "upstream's client", m, cpu, segment, nil)
}
