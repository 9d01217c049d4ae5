//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/pluginhost/launch/internal/keeper"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// boxed runs a shell script in a sandbox and returns what it printed.
func boxed(t *testing.T, b *Box, script string) string {
	t.Helper()
	const report, self, ruleset = 3, 4, 5
	text, err := keeper.Image(report, self, b.Steps(ruleset))
	require.NoError(t, err)
	fd, err := unix.MemfdCreate("keeper", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	program := os.NewFile(uintptr(fd), "keeper")
	defer program.Close()
	_, err = program.Write(text)
	require.NoError(t, err)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer null.Close()
	cmd := exec.CommandContext(t.Context(), "/proc/self/fd/4")
	cmd.Args = []string{"/bin/sh", "sh", "-c", script}
	cmd.ExtraFiles = []*os.File{null, program}
	if b.Ruleset != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, b.Ruleset)
		defer b.Ruleset.Close()
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// TestABox runs a shell in the sandboxes that this kernel and each older one make. cat and echo show what is left.
func TestABox(t *testing.T) {
	now := Probe()
	for version := range now.Landlock + 1 {
		k := Kernel{Landlock: version, Seccomp: now.Seccomp}
		t.Run(fmt.Sprintf("landlock %d", version), func(t *testing.T) {
			outside, inside, left := t.TempDir(), t.TempDir(), t.TempDir()
			for _, dir := range []string{outside, left} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("text of "+dir+"\n"), 0o644))
			}
			b, err := prepare(Policy{Read: []string{left, "/none"}, Write: []string{inside}}, k)
			require.NoError(t, err)
			out := boxed(t, b, fmt.Sprintf(`cat %s/f; cat %s/f; (echo made > %s/g) && cat %s/g; (echo x >> %s/f) && echo appended; cat /proc/self/status`, outside, left, inside, inside, left))
			assert.Equal(t, version == 0, strings.Contains(out, "text of "+outside), out)
			assert.Equal(t, version == 0, strings.Contains(out, "appended\n"), out)
			assert.Contains(t, out, "text of "+left)
			assert.Contains(t, out, "made\n")
			assert.Contains(t, out, "NoNewPrivs:\t1")
			assert.Contains(t, out, "CapPrm:\t0000000000000000")
			if os.Geteuid() == 0 {
				assert.Contains(t, out, "CapBnd:\t0000000000000000")
			}
			assert.Equal(t, k.Seccomp, strings.Contains(out, "Seccomp:\t2"), out)
			assert.Equal(t, version < landlockScope, len(b.Missing) > 0)
		})
	}
}

// TestMemoryKeepsOneCapability: a process of root that registers memory may lock it, and nothing else.
func TestMemoryKeepsOneCapability(t *testing.T) {
	if _, permitted := own(); permitted&(1<<unix.CAP_IPC_LOCK) == 0 {
		t.Skip("this process does not have CAP_IPC_LOCK")
	}
	b, err := Prepare(Policy{Memory: true})
	require.NoError(t, err)
	out := boxed(t, b, "cat /proc/self/status")
	for _, set := range []string{"CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		assert.Contains(t, out, set+":\t0000000000004000")
	}
	assert.Contains(t, b.String(), "no capabilities but ipc_lock")
}

func TestWhatAKernelLacks(t *testing.T) {
	for _, c := range []struct {
		k    Kernel
		want string
	}{
		{Kernel{7, true}, ""},
		{Kernel{6, true}, ""},
		{Kernel{5, true}, "signals"},
		{Kernel{2, true}, "truncating files, signals"},
		{Kernel{0, true}, "files, processes"},
		{Kernel{6, false}, "system calls"},
	} {
		missing := strings.Join(c.k.Missing(), "; ")
		assert.Equal(t, c.want == "", missing == "", c.k)
		assert.Contains(t, missing, c.want, c.k)
	}
}

func TestStepsAreNamed(t *testing.T) {
	b := &Box{}
	assert.Equal(t, stepPrivileges, b.StepName(1))
	assert.Equal(t, stepCapabilities, b.StepName(2))
	assert.Equal(t, "an unknown step", b.StepName(0))
	assert.Equal(t, "an unknown step", b.StepName(1000))
}

// TestDeniedCallsExist: a name that no architecture knows is a mistake, since unknown names are left out.
func TestDeniedCallsExist(t *testing.T) {
	for _, name := range append(denied, outward...) {
		_, amd64 := arch.X86_64.SyscallNames[name]
		_, arm64 := arch.AARCH64.SyscallNames[name]
		assert.True(t, amd64 || arm64, name)
	}
}
