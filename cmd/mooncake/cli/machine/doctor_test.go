package machine_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/clitest"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
)

// The verb runs on the machine it is on. What holds on every machine: no master answers on
// port 1, so a client that needs one fails and `all` does not for that.
func TestDoctor(t *testing.T) {
	e, stdout, stderr := clitest.New()
	assert.Equal(t, command.ExitFailure, cli.Run(e, []string{"mooncake", "doctor", "client", "--master_server_address", "127.0.0.1:1", "-o", "json"}), stderr.String())
	var report struct {
		Status string
		Checks []struct{ Check, Status, Found, Why, Do string }
	}
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &report))
	assert.Equal(t, "fail", report.Status)
	byName := map[string]string{}
	for _, c := range report.Checks {
		byName[c.Check] = c.Status + " " + c.Found
	}
	assert.Contains(t, byName["master"], "fail 127.0.0.1:1: ")
	assert.NotEmpty(t, byName["kernel"])

	e, stdout, _ = clitest.New()
	e.Environ = []string{"MOONCAKE_STORE_NUMA_NODE=1023"}
	assert.Equal(t, command.ExitFailure, cli.Run(e, []string{"mooncake", "doctor"}), "a node that is not there: %s", stdout)
	assert.Contains(t, stdout.String(), "fail  numa ")
	assert.Contains(t, stdout.String(), "warn  master ", "no setting says that it should run")
}

func TestDoctorRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		`output format "xml" is not one of`:                 {"-o", "xml"},
		"--timeout 0s is not above 0":                       {"--timeout", "0s"},
		`unknown command "nurse"`:                           {"nurse"},
		"--rpc_prot: unknown flag; did you mean --rpc_port": {"master", "--rpc_prot", "1"},
		"takes no arguments":                                {"store", "stray"},
		"must be a size":                                    {"store", "--global_segment_size", "much"},
	} {
		e, _, stderr := clitest.New()
		assert.Equal(t, command.ExitUsage, cli.Run(e, append([]string{"mooncake", "doctor"}, args...)), want)
		assert.Contains(t, stderr.String(), want)
	}
}
