package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/config"
)

// TestOneWayToNameThePool: what asks the admin port and what calls the master find the same
// pool: a flag goes before the environment, the environment before the file.
func TestOneWayToNameThePool(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pool.yaml")
	require.NoError(t, os.WriteFile(file, []byte("store: {master_server_address: 'file:1'}\nmaster: {metrics_port: 91}\n"), 0o600))
	for _, c := range []struct {
		name    string
		args    []string
		environ []string
		master  string
		port    string
		cluster string
	}{
		{"default", nil, nil, "127.0.0.1:50051", "9003", "mooncake_cluster"},
		{"file", []string{"--config", file}, nil, "file:1", "91", "mooncake_cluster"},
		{"file of the environment", nil, []string{"MOONCAKE_CONFIG=" + file}, "file:1", "91", "mooncake_cluster"},
		{"upstream's variable", nil, []string{"MOONCAKE_CONFIG=" + file, "MOONCAKE_MASTER=env:2"}, "env:2", "91", "mooncake_cluster"},
		{"our variables", nil, []string{"MOONCAKE_STORE_MASTER_SERVER_ADDRESS=env:3", "MOONCAKE_MASTER_METRICS_PORT=93"}, "env:3", "93", "mooncake_cluster"},
		{"flag", []string{"--master", "flag:4", "--config=" + file}, []string{"MOONCAKE_MASTER=env:2"}, "flag:4", "91", "mooncake_cluster"},
		{"etcd", []string{"--master", "etcd://e:1;f:1"}, []string{"MC_STORE_CLUSTER_ID=blue"}, "etcd://e:1;f:1", "9003", "blue"},
		{"etcd by flags", []string{"--master", "etcd://e:1", "--cluster_id", "green"}, []string{"MC_STORE_CLUSTER_ID=blue"}, "etcd://e:1", "9003", "green"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, verb := range []string{"why", "admin"} {
				e, _, _ := testEnv()
				cmd := command.Child(e.root(), verb)
				require.NoError(t, cmd.ParseFlags(c.args))
				pool, err := config.LoadPool(cmd.Flags(), c.environ)
				require.NoError(t, err)
				assert.Equal(t, c.master, pool.Master, verb)
				assert.Equal(t, c.port, strconv.Itoa(pool.AdminPort), verb)
				assert.Equal(t, c.cluster, pool.Cluster, verb)
			}
			e, _, _ := testEnv()
			cmd := command.Child(command.Child(e.root(), "client"), "get")
			require.NoError(t, cmd.ParseFlags(c.args))
			loaded, err := config.Load(config.Options{Role: config.RoleClient, Flags: cmd.Flags(), Environ: c.environ})
			require.NoError(t, err)
			assert.Equal(t, c.master, loaded.Config.Store.MasterServerAddress)
		})
	}
	e, _, stderr := testEnv()
	assert.Equal(t, command.ExitUsage, run(e, []string{"mooncake", "client", "ls", "--master", "a:1", "--master_server_address", "b:1"}))
	assert.Contains(t, stderr.String(), "is not what --master_server_address says")
}

// TestTheHelpNamesThePool: every verb that talks to a pool shows the same words.
func TestTheHelpNamesThePool(t *testing.T) {
	for _, verb := range []string{"why", "admin segments", "admin drain start", "client", "client get", "client serve", "store"} {
		e, stdout, stderr := testEnv()
		require.Equal(t, command.ExitOK, run(e, append([]string{"mooncake"}, strings.Fields(verb+" --help")...)))
		help := stdout.String() + stderr.String()
		assert.Contains(t, help, "--master host:port", verb)
		assert.Contains(t, help, config.MasterUsage, verb)
		assert.NotContains(t, help, "--admin_address", verb)
	}
}

// TestUnknownFlagsNameTheNearest: each flag of each verb, with two letters swapped.
func TestUnknownFlagsNameTheNearest(t *testing.T) {
	e, _, _ := testEnv()
	flags := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		c.Flags().VisitAll(func(f *pflag.Flag) {
			wrong := swapped(f.Name)
			if c.Name() == "hicache-sizing" { // It answers as upstream's program does.
				return
			}
			if f.Hidden || len(f.Name) < 4 || c.Flags().Lookup(wrong) != nil {
				return
			}
			flags++
			err := c.FlagErrorFunc()(c, c.ParseFlags([]string{"--" + wrong + "=1"}))
			if assert.Error(t, err, c.CommandPath()) {
				assert.Contains(t, err.Error(), "flag --"+wrong+": unknown flag; did you mean --", c.CommandPath())
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(e.root())
	assert.Greater(t, flags, 500)

	for args, want := range map[string]string{
		"mooncake why k --mastre h:1":                      "did you mean --master?",
		"mooncake why k -mastre h:1":                       "did you mean --master?",
		"mooncake admin segments --admin_addresss h:1":     "did you mean --admin_address?",
		"mooncake bench master --keyz 1":                   "did you mean --keys?",
		"mooncake_master -rpc_prot=1":                      "did you mean --rpc_port?",
		"mooncake_master --default_kv_lease_tll 1":         "did you mean --default_kv_lease_ttl?",
		"mooncake_client -global_segment_sise=1":           "did you mean --global_segment_size?",
		"mooncake_store_service --max-wait-timee 1":        "did you mean --max_wait_time?",
		"mooncake_http_metadata_server --prot 1":           "did you mean --port?",
		"transfer_engine_bench --metadata_sevrer=a":        "did you mean --metadata_server?",
		"mooncake client get k --master_server_addresss a": "did you mean --master_server_address?",
	} {
		e, _, stderr := testEnv()
		assert.NotEqual(t, command.ExitOK, run(e, strings.Fields(args)), args)
		assert.Contains(t, stderr.String(), want, args)
	}
}

// swapped exchanges two letters that differ, the last ones.
func swapped(name string) string {
	b := []byte(name)
	for i := len(b) - 1; i > 0; i-- {
		if b[i] != b[i-1] {
			b[i], b[i-1] = b[i-1], b[i]
			return string(b)
		}
	}
	return name
}

// TestUnknownVerbsBelow: also the verbs below a verb.
func TestUnknownVerbsBelow(t *testing.T) {
	for args, want := range map[string]string{
		"mooncake client puut k":       `unknown command "puut"; did you mean put?`,
		"mooncake admin segmants":      `did you mean segments?`,
		"mooncake admin drain stat":    `did you mean status?`,
		"mooncake admin drain sta":     `did you mean start or status?`,
		"mooncake plugins relod":       `did you mean reload?`,
		"mooncake config chek f":       `did you mean check?`,
		"mooncake doctor stroe":        `did you mean store?`,
		"mooncake bench trnasfer":      `did you mean transfer?`,
		"mooncake bench master cals":   `did you mean calls?`,
		"mooncake topologie":           `did you mean topology?`,
		"mooncake whatever-this-is-no": `unknown command "whatever-this-is-no"`,
	} {
		e, _, stderr := testEnv()
		assert.Equal(t, command.ExitUsage, run(e, strings.Fields(args)), args)
		assert.Contains(t, stderr.String(), want, args)
	}
}
