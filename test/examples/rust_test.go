package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/plugins/scaffold"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// TestRustNeedsNoEdit does what `mooncake plugins new` tells a user to do, for each kind: build, style, the
// module's own tests, the suite on the program, and the demo with it. The first build of the libraries takes
// minutes, and cargo fetches them, so that it runs only if a variable asks for it.
func TestRustNeedsNoEdit(t *testing.T) {
	if os.Getenv("MOONCAKE_TEST_RUST") == "" {
		t.Skip("make test-examples-rust runs this, with cargo")
	}
	if _, err := exec.LookPath("cargo"); err != nil {
		t.Skip("cargo is not installed: install Rust 1.91 or later")
	}
	sdk, err := filepath.Abs("../../sdk")
	require.NoError(t, err)
	if os.Getenv("CARGO_TARGET_DIR") == "" { // The libraries are built once.
		t.Setenv("CARGO_TARGET_DIR", t.TempDir())
	}
	for _, kind := range scaffold.Kinds("rust") {
		t.Run(kind, func(t *testing.T) {
			for _, name := range []string{"a", "a-name-as-long-as-it-may-be-1234"} { // The style does not depend on it.
				module := filepath.Join(t.TempDir(), "module")
				mooncake(t, "plugins", "new", kind, name, "--language", "rust", "--dir", module, "--sdk", sdk)
				programs.Must(t, programs.Spec{Program: "cargo", Args: []string{"fmt", "--check"}, Dir: module})
			}
			id := plugin.ID{Kind: kind, Name: "brand-new"}
			module := filepath.Join(t.TempDir(), "module")
			mooncake(t, "plugins", "new", kind, id.Name, "--language", "rust", "--dir", module, "--sdk", sdk)
			programs.Must(t, programs.Spec{Program: "make", Args: []string{"lint", "test", "build"}, Dir: module, Limit: 30 * time.Minute})
			bin := filepath.Join(module, "bin")
			listed(t, bin, id)
			conforms(t, bin, id)
			if scaffold.InDemo(kind) {
				demonstrated(t, bin, id)
			}
		})
	}
}
