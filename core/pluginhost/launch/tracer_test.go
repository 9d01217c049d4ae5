package launch

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTracerOf: the host must not kill a tracer that is one of its own threads.
func TestTracerOf(t *testing.T) {
	runtime.LockOSThread() // The tracer is a thread.
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	require.NoError(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	require.Zero(t, tracerOf(cmd.Process.Pid))
	if err := syscall.PtraceAttach(cmd.Process.Pid); err != nil {
		t.Skipf("processes may not be traced here: %v", err)
	}
	var status syscall.WaitStatus
	_, err := syscall.Wait4(cmd.Process.Pid, &status, 0, nil)
	require.NoError(t, err)
	require.Zero(t, tracerOf(cmd.Process.Pid))
	require.NoError(t, syscall.PtraceDetach(cmd.Process.Pid))
	require.Zero(t, tracerOf(os.Getpid()))
}
