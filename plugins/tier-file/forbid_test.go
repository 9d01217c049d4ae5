package file

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/tier"
)

// forbidEnv has the test binary use a tier where a filter refuses a system call, as containers do:
// the folder, and the number of the call.
const (
	forbidEnv  = "MOONCAKE_TIER_FILE_FORBID"
	forbidCall = "MOONCAKE_TIER_FILE_FORBID_CALL"
)

// TestForbiddenRing: where the kernel refuses io_uring, auto takes pread and says so, and io_uring
// fails.
func TestForbiddenRing(t *testing.T) {
	if testing.Short() {
		t.Skip("needs processes")
	}
	for call, number := range map[string]int{"setup": unix.SYS_IO_URING_SETUP, "enter": unix.SYS_IO_URING_ENTER} {
		child := exec.Command(os.Args[0], "-test.run=^$")
		child.Env = append(os.Environ(), forbidEnv+"="+t.TempDir(), forbidCall+"="+strconv.Itoa(number))
		out, err := child.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "level=WARN msg=\"io_uring is not available")
		require.Contains(t, string(out), "io_uring_"+call+": operation not permitted")
		require.Contains(t, string(out), "io_uring: tier/file: start")
		require.Contains(t, string(out), "set io to auto")
	}
}

// forbid has the kernel refuse a system call to all threads of this process.
func forbid(call uint32) error {
	const allow, refuse = 0x7fff0000, 0x00050000 | uint32(unix.EPERM)
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: refuse},
		{Code: unix.BPF_RET | unix.BPF_K, K: allow},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	const setModeFilter, allThreads = 1, 1
	if r, _, errno := unix.Syscall(unix.SYS_SECCOMP, setModeFilter, allThreads, uintptr(unsafe.Pointer(&program))); errno != 0 || r != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}

func forbidChild(path string) int {
	call, err := strconv.Atoi(os.Getenv(forbidCall))
	if err == nil {
		err = forbid(uint32(call))
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	ctx := context.Background()
	h := newHost()
	h.log = os.Stdout
	auto := newTier(setup{io: IOAuto}.config(path), variant{fileBytes: 24 << 20})
	if err := auto.Start(ctx, h); err != nil {
		fmt.Println(err)
		return 2
	}
	rec, value := numbered(2, 100_000)
	copy(memory, value)
	if err := auto.Register(ctx, tier.Region{ID: 1, Mem: memory, FD: -1}); err != nil {
		return 3
	}
	if _, err := auto.Submit([]tier.Op{{Kind: tier.Write, Record: rec, Local: [][]byte{memory[:100_000]}}}); err != nil {
		return 4
	}
	done := make([]tier.Completion, 1)
	if _, err := auto.Reap(ctx, done); err != nil || done[0].Status != tier.OK {
		return 5
	}
	if err := auto.Stop(ctx); err != nil {
		return 6
	}
	ring := newTier(setup{io: IORing}.config(path), variant{fileBytes: 24 << 20})
	fmt.Println("io_uring:", ring.Start(ctx, h))
	return 0
}
