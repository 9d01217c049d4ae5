package transfer_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/bench/transfer"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/clitest"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/bench/cluster"
	bench "github.com/mooncake-go/mooncake/core/bench/transfer"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// verb makes the verb as a program of that name has it.
func verb(called string) *cobra.Command {
	e, _, _ := clitest.New()
	e.Called = called
	return transfer.New(e)
}

// TestDefaultsOfUpstreamsProgram: under its name every flag has upstream's default.
func TestDefaultsOfUpstreamsProgram(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	cmd := verb(transfer.Program)
	for flag, want := range map[string]string{
		"local_server_name": host, "metadata_server": "192.168.3.77:2379", "mode": "initiator", "operation": "read", "protocol": "rdma",
		"device_name": "mlx5_2", "nic_priority_matrix": "", "segment_id": "192.168.3.76", "batch_size": "128", "block_size": "65536",
		"duration": "10", "threads": "12", "auto_discovery": "false", "report_unit": "GB", "report_precision": "2", "backend": "classic",
	} {
		require.NotNil(t, cmd.Flags().Lookup(flag), flag)
		assert.Equal(t, want, cmd.Flags().Lookup(flag).DefValue, flag)
	}
	assert.Equal(t, "1GiB", cmd.Flags().Lookup("buffer_size").DefValue)
	ours := verb("")
	for flag, want := range map[string]string{"metadata_server": "P2PHANDSHAKE", "protocol": "tcp", "device_name": "", "segment_id": "", "threads": "12"} {
		assert.Equal(t, want, ours.Flags().Lookup(flag).DefValue, flag)
	}
}

func TestWrongFlagsOfBenchTransfer(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--backend=tent", "that engine does not exist here"},
		{"--backend=fast", `"fast" is not known`},
		{"--use_vram", "use --use_vram=false"},
		{"--gpu_id=1", "GPUs cannot be measured"},
		{"--mode=both", "neither initiator nor target"},
		{"--mode=target --sweep", "for the initiator"},
		{"--mode=target --protocol=local", "no target to start"},
		{"--operation=mix", "neither read nor write"},
		{"--protocol=pigeon", `no transport plugin "pigeon"; there are`},
		{"--protocol=,", "names no transport"},
		{"--block_size=64KiB,1MiB", "for --sweep"},
		{"--operation=read,write", "for --sweep"},
		{"--block_size=0", "--block_size is 0"},
		{"--block_size=many", "not a number"},
		{"--sweep --block_size=8..4", "ends before it begins"},
		{"--batch_size=65537", "1 to 65536"},
		{"--threads=0", "1 to 1024"},
		{"--streams=65", "1 to 64"},
		{"--duration=0", "--duration is 0"},
		{"--duration=NaN", "--duration is NaN"},
		{"--rounds=0", "--rounds is 0"},
		{"--warmup=-1s", "--warmup is -1s"},
		{"--buffer_size=0", "nothing to move"},
		{"--report_unit=TB", "GB, GiB, Gb"},
		{"--report_precision=21", "at most 20"},
		{"--sweep --batch_size=1..65536 --threads=1..1024 --block_size=1..64MiB", "combinations"},
		{"-o xml", "xml"},
		{"--blok_size=1", "block_size"},
		{"--set store.nothing=1", "unknown key"},
		{"argument", "takes no arguments"},
	} {
		e, stdout, stderr := clitest.New()
		args := append([]string{"mooncake", "bench", "transfer"}, strings.Fields(c.args)...)
		assert.Equal(t, command.ExitUsage, cli.Run(e, args), args)
		assert.Contains(t, stderr.String(), c.want, args)
		assert.Empty(t, stdout.String(), args)
	}
	e, _, stderr := clitest.New()
	assert.Equal(t, command.ExitFailure, cli.Run(e, []string{transfer.Program, "-protocol=tcp", "-use_vram"}), "as upstream's programs end")
	assert.Contains(t, stderr.String(), "use --use_vram=false")
}

// program runs this test binary as the program.
func program(t *testing.T, called string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"="+called)
	return cmd
}

var testCompleted = regexp.MustCompile(`(?m)^Test completed: duration \d+\.\d\d, batch count [1-9]\d*, throughput \d+\.\d{3} MiB/s$`)

// TestTwoProcesses: a target that is started by hand under upstream's name, an initiator
// under each name, and an end by signal that leaves nothing.
func TestTwoProcesses(t *testing.T) {
	target := program(t, transfer.Program, "-mode=target", "-protocol=tcp", "-metadata_server=P2PHANDSHAKE", "-local_server_name=127.0.0.1:12345",
		"-buffer_size=1048576", "-block_size=65536", "-batch_size=16", "-threads=2")
	var messages bytes.Buffer
	target.Stderr = &messages
	out, err := target.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, target.Start())
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	found := regexp.MustCompile(`^target is ready: segment_id=(127\.0\.0\.1:\d+) protocol=tcp buffer_size=2097152 `).FindStringSubmatch(line)
	require.NotNil(t, found, line)

	for _, operation := range []string{"read", "write"} {
		theirs := program(t, transfer.Program, "-protocol=tcp", "-metadata_server=P2PHANDSHAKE", "-local_server_name=127.0.0.1:12346", "-segment_id="+found[1],
			"-duration=0.05", "-threads=2", "-batch_size=16", "-operation", operation, "-report_unit=MiB", "-report_precision=3", "-check_consistency",
			"-async="+strconv.FormatBool(operation == "write"))
		var stdout, stderr bytes.Buffer
		theirs.Stdout, theirs.Stderr = &stdout, &stderr
		require.NoError(t, theirs.Run(), stderr.String())
		assert.Regexp(t, testCompleted, stderr.String(), "where upstream says it")
		assert.Empty(t, stdout.String())
	}
	ours, err := program(t, "mooncake", "bench", "transfer", "--target", found[1], "--local_server_name", "127.0.0.1", "--duration=0.05",
		"--threads=1", "--batch_size=4", "--report_unit=MiB", "--report_precision=3").Output()
	require.NoError(t, err)
	assert.Regexp(t, testCompleted, string(ours))

	require.NoError(t, target.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	assert.Empty(t, string(rest))
	require.NoError(t, target.Wait(), messages.String())
	assert.Contains(t, messages.String(), "smaller than 2 threads x 16 requests", "the memory was enlarged, as upstream's program does it")
}

// TestSweepStartsItsOwnTarget: one command measures, over two transports.
func TestSweepStartsItsOwnTarget(t *testing.T) {
	cmd := program(t, "mooncake", "bench", "transfer", "--sweep", "--protocol", "local,tcp", "--block_size", "4KiB,64KiB", "--batch_size=2", "--streams", "1,2",
		"--rounds=2", "--duration=0.01", "--warmup=1ms", "--buffer_size=1MiB", "--limits=false", "-o", "json")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var rep bench.Report
	dec := json.NewDecoder(bytes.NewReader(out))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&rep))
	require.Len(t, rep.Results, (1+2)*2*2)
	for _, r := range rep.Results {
		assert.Positive(t, r.Batches)
		assert.Equal(t, &bench.Content{Verified: 2}, r.Content)
	}
	assert.Equal(t, 12, strings.Count(stderr.String(), "measured "))

	cmd = program(t, "mooncake", "bench", "transfer", "--sweep", "--protocol=local", "--block_size=4KiB", "--operation=read", "--rounds=1", "--duration=0.01",
		"--warmup=0s", "--buffer_size=64KiB", "-o", "jsonl")
	out, err = cmd.Output()
	require.NoError(t, err)
	var row bench.Row
	require.NoError(t, json.Unmarshal(out, &row), "one line")
	assert.Equal(t, "memcpy", row.Limit.Name)
}

// TestInterruptedSweep: it says what it measured, and its target is gone.
func TestInterruptedSweep(t *testing.T) {
	cmd := program(t, "mooncake", "bench", "transfer", "--sweep", "--block_size=4KiB", "--rounds=1", "--duration=0.25", "--threads=1..1024", "--batch_size=1,64",
		"--warmup=1ms", "--buffer_size=512MiB", "--limits=false", "-o", "json")
	var stdout, stderr bytes.Buffer
	first := make(chan struct{})
	cmd.Stdout, cmd.Stderr = &stdout, &once{w: &stderr, seen: first}
	require.NoError(t, cmd.Start())
	<-first
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	assert.Equal(t, command.ExitFailure, exit.ExitCode(), stderr.String())
	assert.Contains(t, stderr.String(), "interrupted after ")
	var rep bench.Report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &rep))
	assert.True(t, rep.Interrupted)
	assert.NotEmpty(t, rep.Results)
	assert.Less(t, len(rep.Results), 44)
}

// once closes a channel when something was measured.
type once struct {
	w    *bytes.Buffer
	seen chan struct{}
	done bool
}

func (o *once) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if !o.done && bytes.Contains(o.w.Bytes(), []byte("measured ")) {
		o.done = true
		close(o.seen)
	}
	return n, err
}

// TestBothSidesWithCertificates: the section security of the environment holds for this side and for the target that it
// starts; a target without one is not spoken to.
func TestBothSidesWithCertificates(t *testing.T) {
	own, err := cluster.MakeCertificates(t.TempDir(), "mtls")
	require.NoError(t, err)
	args := []string{"bench", "transfer", "--threads=1", "--batch_size=2", "--block_size=4KiB", "--buffer_size=64KiB", "--duration=0.05", "--check_consistency",
		"--report_unit=MiB", "--report_precision=3"}
	cmd := program(t, "mooncake", args...)
	cmd.Env = own.Environ(cmd.Env, security.RoleStore)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	assert.Regexp(t, testCompleted, string(out))

	target := program(t, "mooncake", "bench", "transfer", "--mode=target", "--local_server_name=127.0.0.1", "--buffer_size=64KiB")
	target.Env = own.Environ(target.Env, security.RoleStore)
	ready, err := target.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, target.Start())
	line, err := bufio.NewReader(ready).ReadString('\n')
	require.NoError(t, err)
	found := regexp.MustCompile(`segment_id=(127\.0\.0\.1:\d+) `).FindStringSubmatch(line)
	require.NotNil(t, found, line)
	plain := program(t, "mooncake", append(args, "--segment_id", found[1], "--local_server_name=127.0.0.1")...)
	text, err := plain.CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(text), "security.mode")
	require.NoError(t, target.Process.Signal(syscall.SIGTERM))
	require.NoError(t, target.Wait())
}
